"""The checks at their tiny sizes on the processor, each in a process of its own."""

from __future__ import annotations

import pytest

from tools.gpu_check.check import Machine, Outcome
from tools.gpu_check.meter import Cost
from tools.gpu_check.parts.widths import extrapolated
from tools.gpu_check.registry import CHECKS
from tools.gpu_check.runner import run_one

MACHINE = Machine(None, 0.0, vllm=False)
TIME_S = 600
ALONE = ("recipe",)
"""A run of the trainer, as tests/e2e has many."""


@pytest.mark.slow
@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize("check", [c for c in CHECKS if c.name not in ALONE], ids=lambda check: check.name)
def test_a_check_passes_on_a_processor(check, tmp_path):
    found = run_one(check, MACHINE, tmp_path, TIME_S)
    assert found.outcome is Outcome.PASS, found.log
    assert found.device == "cpu"


def test_layers_are_extrapolated_along_a_line():
    few, many = Cost(1000.0, 1.0), Cost(1400.0, 1.5)
    assert extrapolated(few, many, (4, 8), 28) == Cost(1400 + 5 * 400, 1.5 + 5 * 0.5)
    with pytest.raises(ValueError, match="both"):
        extrapolated(few, None, (4, 8), 28)
