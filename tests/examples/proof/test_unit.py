import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.tiny.model import build_tiny_model
from proof.plan import rl_overrides
from proof.study import run_unit
from proof.tasks import SYSTEMS
from proof.unit import ProofPaths, Unit
from proof.warm_start import CHOICE, make_warm_start
from tests.examples.proof.small import warm_start

UNIT = Unit("alden", "reward", 0)


@pytest.fixture
def paths(tmp_path) -> ProofPaths:
    return ProofPaths(tmp_path, UNIT.system)


def test_an_ablation_of_what_an_agent_can_do_begins_elsewhere(paths):
    shared = paths.warm_start(UNIT)
    begins = {
        arm: paths.warm_start(Unit("alden", arm, 0)) == shared
        for arm in ("shuffled", "outcome_only")
    }
    assert begins == {"shuffled": True, "outcome_only": True}
    assert paths.warm_start(Unit("alden", "no_fetch", 0)) != shared


def test_the_control_is_the_same_run_with_other_rewards(paths, tmp_path):
    reward, shuffled = (
        set(rl_overrides(Unit("alden", arm, 0), paths, "turn_gae"))
        for arm in ("reward", "shuffled")
    )
    assert {each for each in shuffled - reward if tmp_path.name not in each} == {
        "algorithm.adv_estimator=shuffled_turn_gae",
        "docagent.modules=[learning.shuffled]",
        "trainer.experiment_name=alden-shuffled-0",
    }


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_recipe_trains_the_family_of_the_warm_start(system, tmp_path):
    paths = ProofPaths(tmp_path, system)
    unit = Unit(system, "reward", 0)
    config = composed_recipe(unit.task.recipe, rl_overrides(unit, paths, "grpo"))
    built = build_tiny_model(tmp_path / "model")
    family = json.loads((built / "config.json").read_text())["model_type"]
    assert config.docagent.model_family == family


def test_a_run_does_not_go_on_with_other_settings(paths, tmp_path):
    paths.run(UNIT).mkdir(parents=True)
    (paths.run(UNIT) / "settings.txt").write_text("another\n")
    with pytest.raises(UserError, match=str(paths.run(UNIT))):
        run_unit(UNIT, tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ({}, True),
        # steps that were not needed do not matter
        ({"sft_steps": 1, "dev_accuracy": {"10": UNIT.task.sizes.ceiling}}, True),
        ({"ceiling": 0.9}, False),
        ({"sft_steps": 1}, False),
        ({"sft_every": None}, False),
    ],
)
def test_a_warm_start_that_is_there_is_left_alone_or_refused(paths, changed, taken):
    sample = warm_start(UNIT.system, **changed)
    folder = paths.warm_start(UNIT)
    folder.mkdir(parents=True)
    (folder / CHOICE).write_text(json.dumps(sample))
    if taken:
        assert make_warm_start(UNIT, paths) == sample
    else:
        with pytest.raises(UserError, match="warm_start-shared"):
            make_warm_start(UNIT, paths)
