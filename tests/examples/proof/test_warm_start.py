from __future__ import annotations

import json

import pytest

from docagent_rl.errors import UserError
from proof.unit import ProofPaths, Unit
from proof.warm_start import RECORD, make_warm_start

UNIT = Unit("alden", "reward", 0)


def _record(tmp_path, **changed):
    sizes = UNIT.task.sizes
    record = {"step": 5, "ceiling": sizes.ceiling, "sft_steps": sizes.sft_steps, "sft_every": sizes.sft_every}
    folder = ProofPaths(tmp_path, UNIT.system).warm_start(UNIT)
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(json.dumps(record | changed))
    return record


def test_a_warm_start_that_is_there_is_left_alone(tmp_path):
    record = _record(tmp_path)
    assert make_warm_start(UNIT, ProofPaths(tmp_path, UNIT.system)) == record


@pytest.mark.parametrize("changed", [{"ceiling": 0.9}, {"sft_steps": 1}, {"sft_every": None}])
def test_one_that_was_chosen_with_other_sizes_is_refused(tmp_path, changed):
    _record(tmp_path, **changed)
    with pytest.raises(UserError, match="warm_start-shared was chosen with other sizes"):
        make_warm_start(UNIT, ProofPaths(tmp_path, UNIT.system))
