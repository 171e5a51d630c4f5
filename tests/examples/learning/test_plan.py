import pytest

from docagent_rl.base.user_code import load_modules
from docagent_rl.checks.preflight import check_statically
from docagent_rl.checks.recipe_check import composed_recipe
from learning.choices import Arm, Estimator
from learning.plan import RECIPE, LearnPaths, LearnSettings, RunKey, rl_overrides
from learning.task import write_prompt


@pytest.mark.slow
@pytest.mark.parametrize(
    ("estimator", "arm"),
    [*((each, Arm.REWARD) for each in Estimator), (Estimator.GRPO, Arm.SHUFFLED)],
)
def test_every_run_passes_the_checks_before_a_start(tmp_path, estimator, arm):
    paths, key = LearnPaths(tmp_path), RunKey(estimator, arm, 1)
    write_prompt(paths.task)
    config = composed_recipe(RECIPE, rl_overrides(key, paths, LearnSettings(steps=7)))
    assert bool(config.critic.enable) is (estimator is Estimator.TURN_GAE)
    load_modules(config.docagent.get("modules", ()))
    parsed = check_statically(config)
    assert parsed.env["display"]["max_pixels"] == 12544
    prefix = "shuffled_" if arm is Arm.SHUFFLED else ""
    assert config.algorithm.adv_estimator == prefix + estimator.registered
    assert config.trainer.total_training_steps == config.trainer.test_freq == 7
    assert config.docagent.run_dir == str(
        tmp_path / "seed-1" / f"{estimator.value}-{arm.value}" / "run"
    )
    assert config.actor_rollout_ref.model.path == str(tmp_path / "seed-1" / "warm_start")
