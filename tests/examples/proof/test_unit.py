from __future__ import annotations

import pytest

from docagent_rl.errors import UserError
from proof.plan import rl_overrides
from proof.unit import ProofPaths, Unit, in_order


def test_the_most_telling_units_come_first():
    found = [(unit.system, unit.arm, unit.seed) for unit in in_order(["alden", "vrag_rl"], seeds=(0, 1))]
    assert found[:4] == [
        ("alden", "reward", 0),
        ("vrag_rl", "reward", 0),
        ("alden", "shuffled", 0),
        ("vrag_rl", "shuffled", 0),
    ]
    assert {seed for *_, seed in found[: len(found) // 2]} == {0}
    assert len(set(found)) == len(found)


def test_an_unknown_arm_is_refused():
    with pytest.raises(UserError, match="no arm 'half'"):
        list(in_order(["alden"], ["half"]))


def test_an_ablation_of_what_an_agent_can_do_begins_elsewhere(tmp_path):
    paths = ProofPaths(tmp_path, "alden")
    shared = paths.warm_start(Unit("alden", "reward", 0))
    assert paths.warm_start(Unit("alden", "shuffled", 0)) == shared
    assert paths.warm_start(Unit("alden", "outcome_only", 0)) == shared
    assert paths.warm_start(Unit("alden", "no_fetch", 0)) != shared


def test_the_control_is_the_same_run_with_other_rewards(tmp_path):
    paths = ProofPaths(tmp_path, "alden")
    reward, shuffled = (
        set(rl_overrides(Unit("alden", arm, 0), paths, "turn_gae")) for arm in ("reward", "shuffled")
    )
    differing = {each for each in shuffled - reward if tmp_path.name not in each}
    assert differing == {
        "algorithm.adv_estimator=shuffled_turn_gae",
        "docagent.modules=[learning.shuffled]",
        "trainer.experiment_name=alden-shuffled-0",
    }
