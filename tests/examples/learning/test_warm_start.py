from __future__ import annotations

import pytest

from docagent_rl.errors import InfrastructureError
from learning.warm_start import checkpoint_steps, choose

STEPS = list(range(5, 55, 5))


@pytest.mark.parametrize("first_strong", [1, 2, 5, 6, 9, 10])
def test_the_last_checkpoint_below_the_ceiling_is_found(first_strong):
    accuracy = {step: 0.1 if number < first_strong else 0.8 for number, step in enumerate(STEPS)}
    step, measured = choose(STEPS, accuracy.__getitem__, 0.4)
    assert step == STEPS[first_strong - 1]
    assert len(measured) <= 4
    assert list(measured) == sorted(measured)


def test_without_a_weak_checkpoint_there_is_no_warm_start():
    with pytest.raises(InfrastructureError, match="40 %"):
        choose(STEPS, lambda step: 0.9, 0.4)
    with pytest.raises(InfrastructureError):
        choose([], lambda step: 0.0, 0.4)


def test_checkpoints_are_found_by_their_names(tmp_path):
    for step in (10, 5, 100):
        (tmp_path / f"global_step_{step}").mkdir()
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("100")
    assert checkpoint_steps(tmp_path) == [5, 10, 100]
    assert checkpoint_steps(tmp_path / "none") == []
