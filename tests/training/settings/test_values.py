from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.errors import UserError
from docagent_rl.training.settings.assertions import assertion_problems
from docagent_rl.training.settings.values import check_by_verl, check_mode, check_values

RECIPE = "vrag_rl_qwen2_5_vl_7b"
ROLLOUT = "actor_rollout_ref.rollout"


@pytest.fixture
def config(tmp_path):
    def make(*overrides, recipe=RECIPE):
        return composed(recipe, ["+profile=cpu", f"docagent.workspace={tmp_path}", *overrides])

    return make


@pytest.fixture(scope="module")
def plain():
    return composed(RECIPE, ["+profile=cpu"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.val_files", None),
        ("data.train_files", []),
        ("data.val_files", [None]),
        ("data.max_prompt_length", 1),
        ("data.max_response_length", 0),
        ("data.train_batch_size", 0),
        ("data.train_batch_size", "four"),
        ("data.train_batch_size", 2.5),
        ("data.train_max_samples", 0),
        ("data.dataloader_num_workers", -1),
        (f"{ROLLOUT}.n", 0),
        (f"{ROLLOUT}.n", True),
        (f"{ROLLOUT}.val_kwargs.n", 0),
        (f"{ROLLOUT}.temperature", 0),
        (f"{ROLLOUT}.top_p", 1.5),
        (f"{ROLLOUT}.top_k", -3),
        (f"{ROLLOUT}.gpu_memory_utilization", 80),
        (f"{ROLLOUT}.tensor_model_parallel_size", 0),
        (f"{ROLLOUT}.max_model_len", -1),
        (f"{ROLLOUT}.agent.num_workers", 0),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", None),
        ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", 0),
        ("actor_rollout_ref.actor.optim.lr", float("nan")),
        ("actor_rollout_ref.actor.optim.lr", -1),
        ("actor_rollout_ref.actor.clip_ratio", -0.2),
        ("algorithm.gamma", 1.1),
        ("trainer.nnodes", 0),
        ("trainer.total_epochs", None),
        ("trainer.total_training_steps", 0),
        ("trainer.save_freq", -2),
        ("reward.num_workers", 0),
        ("trainer.resume_mode", "newest"),
    ],
)
def test_a_value_that_no_run_can_have_is_named_alone(plain, key, value):
    changed = plain.copy()
    OmegaConf.update(changed, key, value)
    with pytest.raises(UserError) as problem:
        check_values(changed)
    (line,) = str(problem.value).splitlines()[1:]
    assert line.startswith(f"  {key}=")


def test_several_are_named_together(config):
    with pytest.raises(UserError) as problem:
        check_values(config(f"{ROLLOUT}.n=0", "trainer.nnodes=-1"))
    assert [line.split("=")[0].strip() for line in str(problem.value).splitlines()[1:]] == [
        f"{ROLLOUT}.n",
        "trainer.nnodes",
    ]


def test_a_critic_is_looked_at_where_there_is_one(config):
    check_values(config("critic.ppo_epochs=0", "critic.enable=false"))
    with pytest.raises(UserError, match=r"critic\.ppo_epochs=0"):
        check_values(config("critic.ppo_epochs=0", "critic.enable=true"))


def test_a_checkpoint_to_resume_from_has_a_step(config):
    with pytest.raises(UserError, match=r"trainer\.resume_from_path=/somewhere"):
        check_values(config("trainer.resume_mode=resume_path", "trainer.resume_from_path=/somewhere"))
    check_values(config("trainer.resume_mode=resume_path", "trainer.resume_from_path=/x/global_step_3"))


@pytest.mark.parametrize("mode", ["docagent_asynchronous", "null"])
def test_an_unknown_trainer_mode(config, mode):
    with pytest.raises(UserError, match=r"trainer_mode=.*docagent_sync, "):
        check_mode(config(f"trainer.v1.trainer_mode={mode}"))


@pytest.mark.parametrize("mode", ["docagent_separate_async", "sync", "colocate_async"])
def test_known_trainer_modes(config, mode):
    check_mode(config(f"trainer.v1.trainer_mode={mode}"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=null", "log_prob_micro_batch_size_per_gpu"),
        ("actor_rollout_ref.actor.loss_agg_mode=mean", "loss_agg_mode"),
        ("trainer.n_gpus_per_node=7", r"real_train_batch_size \(16\)"),
    ],
)
def test_what_verl_refuses_is_one_message(config, override, message, capsys):
    with pytest.raises(UserError, match=message):
        check_by_verl(config(override))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("recipe", recipe_names())
def test_recipes_pass_with_and_without_the_profile(recipe, tmp_path):
    for profile in ([], ["+profile=cpu"]):
        made = composed(recipe, [*profile, f"docagent.workspace={tmp_path}"])
        check_values(made)
        check_mode(made)
        check_by_verl(made)
        if not profile:
            before = made.copy()
            assert assertion_problems(made) == []
            assert made == before
