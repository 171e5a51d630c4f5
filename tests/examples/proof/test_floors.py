from __future__ import annotations

import pytest

from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from proof.floors import measure_floors
from proof.unit import ProofPaths, Unit
from proof.workspace import make_workspace
from tests.examples.proof.small import shrink


@pytest.mark.slow
@pytest.mark.parametrize("system", ["alden", "vrag_rl"])
def test_pages_are_needed_and_suffice(system, monkeypatch, tmp_path):
    task, unit, paths = shrink(system, monkeypatch), Unit(system, "reward", 0), ProofPaths(tmp_path, system)
    make_workspace(task, paths.task)
    build_tiny_qwen2_5_vl(paths.warm_start(unit), seed=0)
    found = measure_floors(unit, paths)
    assert found["oracle"]["accuracy"] == 1.0
    assert found["oracle"]["reward"] >= 1.0
    assert found["question_only"]["accuracy"] == found["random"]["accuracy"] == 0.0
    assert found["random"]["reward"] < found["oracle"]["reward"]
    assert found["commonest"]["accuracy"] < 0.2
