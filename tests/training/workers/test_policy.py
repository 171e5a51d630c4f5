"""The workers of a policy and of a critic: which parts replace verl's, and which remain verl's."""

import pytest
import ray
from omegaconf import open_dict
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.single_controller.base.decorator import MAGIC_ATTR, Dispatch
from verl.trainer.ppo.utils import Role
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.losses.config import KlConfig
from docagent_rl.training.settings.models import ACTOR_KEY, CRITIC_KEY
from docagent_rl.training.workers import policy
from docagent_rl.training.workers.critic import (
    CriticWorker,
    critic_kinds,
    install_critic,
    pass_micro_batch_sizes,
)
from docagent_rl.training.workers.extensions import FrozenVisionWorker, PolicyKinds
from docagent_rl.training.workers.trained_tokens import TrainedTokensWorker
from docagent_rl.training.workers.trajectory_loss import TrajectoryCountWorker, TrajectoryMeanLoss
from docagent_rl.training.workers.turn_loss import TurnCountWorker, TurnMeanLoss

ALDEN, ROWS = "alden_qwen2_5_vl_7b", "ppo_micro_batch_size_per_gpu"
CONFIG = KlConfig.model_validate({"observation": {"coef": 0.01, "type": "k2", "scope": "image"}})


def kinds_of(run):
    return policy.policy_kinds(run, DocAgentConfig.parse(plain_section(run.docagent)))


def kl_kinds(*more):
    return PolicyKinds(
        [policy.ObservationKlMixin],
        [policy.PolicyWorker, *more],
        [policy.ReferenceWorker],
        {"observation_kl": CONFIG.observation},
    )


@pytest.mark.parametrize("kl", [0, 0.01])
@pytest.mark.parametrize("freeze", [False, True])
def test_a_policy_gets_what_its_run_configures(recipe, kl, freeze):
    values = f"docagent.kl.observation.coef={kl}", f"{ACTOR_KEY}={str(freeze).lower()}"
    found = kinds_of(recipe("vrag_rl_qwen2_5_vl_7b", *values)).worker_class(ActorRolloutRefWorker)
    known = (policy.PolicyWorker, FrozenVisionWorker, TrainedTokensWorker)
    expected = [kind for kind, wanted in zip(known, (kl, freeze, True), strict=True) if wanted]
    assert [kind for kind in found.actor_worker_cls.__mro__ if kind in known] == expected
    assert issubclass(found.actor_worker_cls, TrainingWorker)
    assert issubclass(found, policy.ObservationKlMixin) is (kl > 0)
    assert (found.ref_worker_cls is policy.ReferenceWorker) is (kl > 0)
    assert not issubclass(found.ref_worker_cls, FrozenVisionWorker)


def test_the_loss_over_trajectories_comes_with_the_section(recipe):
    found = kinds_of(recipe("mm_doc_r1_qwen3_8b", "docagent.loss.aggregation=trajectory"))
    assert found == PolicyKinds(
        [policy.MeanLossMixin],
        [TrajectoryCountWorker, TrainedTokensWorker],
        settings={"mean_loss": TrajectoryMeanLoss},
    )


def test_the_loss_over_turns_comes_with_the_section(recipe):
    found = kinds_of(recipe("alden_qwen2_5_vl_7b", "docagent.loss.aggregation=turn"))
    assert found.outer == [policy.ObservationKlMixin, policy.MeanLossMixin]
    assert found.settings["mean_loss"] is TurnMeanLoss
    assert found.actor == [policy.PolicyWorker, TurnCountWorker, TrainedTokensWorker]


@pytest.mark.parametrize("base", [ActorRolloutRefWorker, DetachActorWorker])
@pytest.mark.parametrize("role", [Role.Actor, Role.ActorRollout, Role.ActorRolloutRef])
def test_the_policys_worker_is_replaced_and_no_other(base, role):
    others = {Role.Critic: ray.remote(TrainingWorker), Role.RefPolicy: ray.remote(base)}
    mapping = {role: ray.remote(base), **others}
    before = dict(mapping)
    policy.install_workers(mapping, PolicyKinds())
    assert mapping == before
    policy.install_workers(mapping, kl_kinds())
    assert {name: mapping[name] for name in others} == others
    found = mapping[role].__ray_actor_class__
    assert issubclass(found, base)
    assert found.observation_kl == CONFIG.observation
    assert (found.actor_worker_cls, found.ref_worker_cls) == (
        policy.PolicyWorker,
        policy.ReferenceWorker,
    )


def test_the_critics_worker_is_replaced_and_no_other():
    mapping = {Role.ActorRolloutRef: ray.remote(ActorRolloutRefWorker)}
    before = dict(mapping)
    install_critic(mapping, [CriticWorker])
    assert mapping == before
    for kinds in ([], [TrainedTokensWorker], [CriticWorker, FrozenVisionWorker]):
        mapping[Role.Critic] = verls = ray.remote(TrainingWorker)
        install_critic(mapping, kinds)
        found = mapping.pop(Role.Critic)
        assert (found is verls) == (not kinds)
        assert all(issubclass(found.__ray_actor_class__, kind) for kind in kinds)
        assert mapping == before


def called(method: object) -> dict | None:
    """Return how verl passes a method its arguments; partial functions compare by identity, so
    their parts are returned.
    """
    registered = getattr(method, MAGIC_ATTR, None)
    if registered is None or not isinstance(registered["dispatch_mode"], dict):
        return registered
    mode = {name: (p.func, p.args) for name, p in registered["dispatch_mode"].items()}
    return registered | {"dispatch_mode": mode}


def test_workers_keep_what_verl_calls_from_afar():
    kinds = kl_kinds(FrozenVisionWorker, TrajectoryCountWorker, TrainedTokensWorker)
    kinds.outer.append(policy.MeanLossMixin)
    ours = kinds.worker_class(ActorRolloutRefWorker)
    assert issubclass(ours.actor_worker_cls, TrajectoryCountWorker)
    assert issubclass(ours.actor_worker_cls, FrozenVisionWorker)
    for theirs, own in ((ActorRolloutRefWorker, ours), (TrainingWorker, CriticWorker)):
        for name in dir(theirs):
            assert called(getattr(own, name)) == called(getattr(theirs, name)), name
    assert getattr(ours.init_model, MAGIC_ATTR)["dispatch_mode"] is Dispatch.ONE_TO_ALL
    assert ours.init_model is policy.ObservationKlMixin.init_model


@pytest.mark.parametrize(
    ("actor", "critic", "frozen"),
    [
        ("true", "null", True),
        ("false", "null", False),
        ("false", "true", True),
        ("true", "false", False),
    ],
)
def test_the_critics_tower_is_frozen_as_the_policys_unless_told_otherwise(
    recipe, actor, critic, frozen
):
    run = recipe(ALDEN, f"{ACTOR_KEY}={actor}", f"{CRITIC_KEY}={critic}")
    section = DocAgentConfig.parse(plain_section(run.docagent))
    more = [FrozenVisionWorker] if frozen else []
    assert critic_kinds(run, section, ours=True) == [CriticWorker, *more]
    assert critic_kinds(run, section, ours=False) == [TrainedTokensWorker, *more]


@pytest.mark.parametrize(
    ("values", "rows", "tokens"),
    [
        (["use_dynamic_bsz=false"], (1, 1), 19000),
        (
            ["use_dynamic_bsz=false", f"{ROWS}=3", "forward_micro_batch_size_per_gpu=5"],
            (3, 5),
            19000,
        ),
        (["use_dynamic_bsz=true", "ppo_max_token_len_per_gpu=20000"], None, 20000),
        (["use_dynamic_bsz=true", "ppo_infer_max_token_len_per_gpu=30000"], None, 30000),
    ],
)
def test_micro_batches_of_a_critic_are_as_large_as_the_recipe_says(recipe, values, rows, tokens):
    run = recipe(ALDEN, *(f"critic.{value}" for value in values), cpu=False)
    with open_dict(run):
        del run.critic.model
    pass_micro_batch_sizes(run.critic)
    config = omega_conf_to_dataclass(run.critic)
    engine = config.engine
    assert engine.use_dynamic_bsz is (rows is None)
    assert config.ppo_infer_max_token_len_per_gpu == tokens
    if rows is not None:
        assert (engine.micro_batch_size_per_gpu, engine.infer_micro_batch_size_per_gpu) == rows
