from __future__ import annotations

import pytest
import ray
from omegaconf import open_dict
from verl.single_controller.base.decorator import MAGIC_ATTR
from verl.trainer.ppo.utils import Role
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.training.settings.frozen_checks import ACTOR_KEY, CRITIC_KEY
from docagent_rl.training.workers.critic import CriticWorker, critic_kinds, hand_on_sizes, install_critic
from docagent_rl.training.workers.frozen import FrozenVisionWorker
from tests.training.ranks import last_report

ALDEN, ROWS = "alden_qwen2_5_vl_7b", "ppo_micro_batch_size_per_gpu"


@pytest.mark.slow
def test_the_loss_is_the_mean_over_tokens_with_a_target(tmp_path, warm_python):
    """Updates in verl's engine: targets on all sampled tokens, on some, and other returns elsewhere."""
    report = last_report(warm_python, "tests.training.workers.critic_engine", tmp_path)
    every, some, noise = report["losses"]
    assert [every, some] == pytest.approx(report["expected"], rel=1e-5)
    assert every != pytest.approx(some, rel=1e-3)
    assert noise == pytest.approx(some, rel=1e-6)
    assert report["error"] < 1e-6


def test_the_critics_worker_is_replaced_and_no_other():
    mapping = {Role.ActorRolloutRef: ray.remote(ActorRolloutRefWorker)}
    before = dict(mapping)
    install_critic(mapping, [CriticWorker])
    assert mapping == before
    mapping[Role.Critic] = verls = ray.remote(TrainingWorker)
    install_critic(mapping, [])
    assert mapping[Role.Critic] is verls
    install_critic(mapping, [CriticWorker])
    assert mapping.pop(Role.Critic).__ray_actor_class__ is CriticWorker
    assert mapping == before
    mapping[Role.Critic] = verls
    install_critic(mapping, [CriticWorker, FrozenVisionWorker])
    assert issubclass(mapping[Role.Critic].__ray_actor_class__, CriticWorker)
    assert issubclass(mapping[Role.Critic].__ray_actor_class__, FrozenVisionWorker)


@pytest.mark.parametrize(
    ("actor", "critic", "frozen"),
    [("true", "null", True), ("false", "null", False), ("false", "true", True), ("true", "false", False)],
)
def test_the_critics_tower_is_frozen_as_the_policys_unless_told_otherwise(recipe, actor, critic, frozen):
    run = recipe(ALDEN, f"{ACTOR_KEY}={actor}", f"{CRITIC_KEY}={critic}")
    section = DocAgentConfig.parse(plain(run.docagent))
    ours = [CriticWorker, FrozenVisionWorker] if frozen else [CriticWorker]
    assert critic_kinds(run, section, ours=True) == ours
    assert critic_kinds(run, section, ours=False) == ours[1:]


@pytest.mark.parametrize(
    ("values", "rows", "tokens"),
    [
        (["use_dynamic_bsz=false"], (1, 1), 19000),
        (["use_dynamic_bsz=false", f"{ROWS}=3", "forward_micro_batch_size_per_gpu=5"], (3, 5), 19000),
        (["use_dynamic_bsz=true", "ppo_max_token_len_per_gpu=20000"], None, 20000),
        (["use_dynamic_bsz=true", "ppo_infer_max_token_len_per_gpu=30000"], None, 30000),
    ],
)
def test_micro_batches_are_as_large_as_the_recipe_says(recipe, values, rows, tokens):
    run = recipe(ALDEN, *(f"critic.{value}" for value in values), cpu=False)
    with open_dict(run):
        del run.critic.model
    hand_on_sizes(run.critic)
    config = omega_conf_to_dataclass(run.critic)
    engine = config.engine
    assert engine.use_dynamic_bsz is (rows is None)
    assert config.ppo_infer_max_token_len_per_gpu == tokens
    if rows is not None:
        assert (engine.micro_batch_size_per_gpu, engine.infer_micro_batch_size_per_gpu) == rows


def test_the_worker_keeps_what_verl_calls_from_afar():
    for name in dir(TrainingWorker):
        theirs, ours = (called(getattr(kind, name)) for kind in (TrainingWorker, CriticWorker))
        assert ours == theirs, name


def called(method: object) -> dict | None:
    """How verl sends a method its arguments; partial functions compare by identity."""
    registered = getattr(method, MAGIC_ATTR, None)
    if registered is None or not isinstance(registered["dispatch_mode"], dict):
        return registered
    mode = {name: (p.func, p.args) for name, p in registered["dispatch_mode"].items()}
    return registered | {"dispatch_mode": mode}
