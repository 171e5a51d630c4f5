from __future__ import annotations

import json

import pytest

from docagent_rl.errors import UserError
from proof.tasks.base import Sizes
from proof.unit import ProofPaths, Unit
from proof.warm_start import RECORD, _train, make_warm_start
from tests.examples.proof.small import warm_start

UNIT = Unit("alden", "reward", 0)


def _record(tmp_path, **changed):
    record = warm_start(UNIT.system, **changed)
    folder = ProofPaths(tmp_path, UNIT.system).warm_start(UNIT)
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(json.dumps(record))
    return record


def test_a_warm_start_that_is_there_is_left_alone(tmp_path):
    record = _record(tmp_path)
    assert make_warm_start(UNIT, ProofPaths(tmp_path, UNIT.system)) == record


@pytest.mark.parametrize("changed", [{"ceiling": 0.9}, {"sft_steps": 1}, {"sft_every": None}])
def test_one_that_was_chosen_with_other_sizes_is_refused(tmp_path, changed):
    _record(tmp_path, **changed)
    with pytest.raises(UserError, match="warm_start-shared was chosen with other sizes"):
        make_warm_start(UNIT, ProofPaths(tmp_path, UNIT.system))


def test_steps_that_were_not_needed_do_not_matter(tmp_path):
    record = _record(tmp_path, sft_steps=1, dev_accuracy={"10": UNIT.task.sizes.ceiling})
    assert make_warm_start(UNIT, ProofPaths(tmp_path, UNIT.system)) == record


@pytest.mark.parametrize(("reached", "ends"), [(50, [50]), (51, [50, 100]), (1000, [50, 100])])
def test_training_goes_on_until_the_ceiling_or_the_last_step(reached, ends):
    trained = []
    sizes = Sizes(sft_steps=100, ceiling=0.25)
    last = _train(sizes, trained.append, lambda step: 0.25 if step >= reached else 0.2)
    assert trained == ends
    assert last == ends[-1]
