"""Configurations at which verl's trainers would stop are reported at once, before Ray and
models.
"""

import pytest
from omegaconf import OmegaConf

from docagent_rl.training.settings.arithmetic import verls_problems
from docagent_rl.training.settings.keys import reference
from docagent_rl.training.settings.ledger import MODES, OURS
from docagent_rl.training.settings.trainer_modes import (
    BUILT_FROM,
    backend_problems,
    separate_problems,
    trainer_problems,
)

VRAG, ALDEN = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b"
ROLLOUT = "actor_rollout_ref.rollout"
BACKEND = f"{ROLLOUT}.checkpoint_engine.backend"
SEPARATE = "trainer.v1.trainer_mode=docagent_separate_async"
STARTS = (
    SEPARATE,
    # four updates of it are the 32 questions of a step
    "actor_rollout_ref.actor.ppo_mini_batch_size=8",
    f"{ROLLOUT}.nnodes=1",
    f"{BACKEND}=nccl",
)


def test_servers_of_their_own_are_told_everything_at_once(recipe):
    """verl would report these one after the other, each time after all models are loaded."""
    batch, gpus, backend = separate_problems(recipe(VRAG, SEPARATE, cpu=False))
    assert batch.startswith("data.train_batch_size=32 must be")
    assert batch.endswith("set actor_rollout_ref.actor.ppo_mini_batch_size=8")
    assert f"set {ROLLOUT}.nnodes=1 {ROLLOUT}.n_gpus_per_node=2" in gpus
    assert backend.startswith(f"{BACKEND}=naive cannot")
    assert "docagent_ray" in backend


def test_with_the_values_to_set_nothing_is_left(recipe):
    assert list(separate_problems(recipe(VRAG, *STARTS, cpu=False))) == []
    assert list(trainer_problems(recipe(VRAG, *STARTS, cpu=False))) == []
    assert list(verls_problems(recipe(VRAG, *STARTS, cpu=False))) == []


@pytest.mark.parametrize("left_out", [1, 2, 3])
def test_verls_own_assertions_would_say_each_of_them(recipe, left_out):
    """Our rules are verl's own: verl's trainer refuses what they name."""
    changes = [change for number, change in enumerate(STARTS) if number != left_out]
    (ours,) = separate_problems(recipe(VRAG, *changes, cpu=False))
    (verls,) = trainer_problems(recipe(VRAG, *changes, cpu=False))
    assert verls.startswith("verl's trainer refuses this configuration: ")
    assert STARTS[left_out].partition("=")[0].rpartition(".")[2].removeprefix("ppo_") in ours
    words = {1: "train_batch_size must equal", 2: "nnodes must be > 0", 3: "please use nccl"}
    assert words[left_out] in verls


def test_a_batch_that_updates_do_not_divide_is_changed_itself(recipe):
    changes = ("data.train_batch_size=30", "trainer.v1.separate_async.parameter_sync_step=4")
    problem, *_ = separate_problems(recipe(VRAG, *STARTS, *changes, cpu=False))
    assert problem.endswith("set data.train_batch_size=32")


def test_gpus_that_make_no_whole_server(recipe):
    (problem,) = separate_problems(recipe(VRAG, *STARTS, f"{ROLLOUT}.n_gpus_per_node=3", cpu=False))
    assert "3 GPUs cannot be divided into servers of 2" in problem


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("prefix", [OURS, ""])
def test_verls_trainers_take_the_recipes(recipe, mode, prefix):
    changes = [*STARTS[1:], f"trainer.v1.trainer_mode={prefix}{mode}"]
    run = recipe(VRAG, *changes, cpu=False)
    assert list(trainer_problems(run)) == []
    assert run.trainer.v1.trainer_mode == f"{prefix}{mode}"  # a copy was looked at


@pytest.mark.parametrize("mode", MODES)
def test_what_a_trainers_buffer_refuses_is_said(recipe, mode):
    changes = [
        *STARTS[1:],
        f"trainer.v1.trainer_mode=docagent_{mode}",
        "algorithm.filter_groups.enable=true",
    ]
    run = recipe(VRAG, *changes, "algorithm.filter_groups.metric=null", cpu=False)
    (problem,) = trainer_problems(run)
    assert "algorithm.filter_groups.metric must be set" in problem


def test_trainers_of_ones_own_are_left_alone(recipe):
    run = recipe(
        VRAG,
        "trainer.v1.trainer_mode=mine",
        "trainer.v1.sampler.max_off_policy_threshold=0",
        cpu=False,
    )
    assert list(trainer_problems(run)) == list(separate_problems(run)) == []


def test_no_code_of_the_users_runs_for_it(recipe):
    classes = (
        "trainer.checkpoint_callback_class=nowhere.Callback",
        "trainer.v1.sampler.custom_sampler.path=nowhere.py",
        "trainer.v1.sampler.custom_sampler.name=Sampler",
    )
    assert list(trainer_problems(recipe(VRAG, *classes, cpu=False))) == []


def test_a_way_of_weights_that_is_not_installed_here(recipe):
    assert list(backend_problems(recipe(VRAG, *STARTS, f"{BACKEND}=docagent_ray", cpu=False))) == []
    (problem,) = backend_problems(recipe(VRAG, *STARTS, f"{BACKEND}=carrier_pigeon", cpu=False))
    assert problem.startswith(f"{BACKEND}=carrier_pigeon is not available")
    assert "docagent_ray" in problem
    assert list(backend_problems(recipe(VRAG, f"{BACKEND}=carrier_pigeon", cpu=False))) == []


def test_verl_checks_a_critic_without_its_model(recipe):
    model = "critic.model.path=/nowhere"
    assert list(verls_problems(recipe(ALDEN, model, cpu=False))) == []
    changes = ("critic.use_dynamic_bsz=false", "critic.ppo_mini_batch_size=256")
    (problem,) = verls_problems(recipe(ALDEN, model, *changes, cpu=False))
    assert "critic.ppo_mini_batch_size" in problem


def test_verl_checks_the_rollout_as_its_workers_do(recipe):
    (problem,) = verls_problems(
        recipe(VRAG, f"{ROLLOUT}.pipeline_model_parallel_size=2", cpu=False)
    )
    assert "pipeline_model_parallel_size" in problem


@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_verls_trainers_are_built_from_the_values_that_are_compared_with_its_own(mode):
    """They read no other section from which they could refuse to be built."""
    from verl.trainer.ppo.v1.trainer_base import get_trainer_cls

    rest = {
        "trainer": {"v1": {"trainer_mode": mode}},
        "actor_rollout_ref": {"actor": {"use_kl_loss": True}, "model": {}},
        "critic": {"enable": True},
        "data": {"train_batch_size": 7},
    }
    config = OmegaConf.create(rest)
    for key in (*BUILT_FROM, f"trainer.v1.{mode}"):
        OmegaConf.update(config, key, OmegaConf.select(OmegaConf.create(reference()), key))
    OmegaConf.set_struct(config, True)
    get_trainer_cls(mode)(config)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("trainer.v1.sampler.max_off_policy_threshold=0", "Invalid max off policy threshold"),
        ("trainer.v1.sampler.max_off_policy_strategy=never", "Invalid max off policy strategy"),
    ],
)
def test_a_value_that_is_not_verls_own_is_judged_by_verl(recipe, change, words):
    (problem,) = trainer_problems(recipe(VRAG, change))
    assert words in problem
