from __future__ import annotations

import pytest
import ray
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.single_controller.base.decorator import MAGIC_ATTR, Dispatch
from verl.trainer.ppo.utils import Role
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.losses.config import KlConfig
from docagent_rl.training.settings.frozen_checks import ACTOR_KEY
from docagent_rl.training.workers import policy
from docagent_rl.training.workers.extensions import Extension, worker_class
from docagent_rl.training.workers.frozen import FrozenVisionWorker
from docagent_rl.training.workers.session_loss import SESSION_LOSS, SessionCountWorker

CONFIG = KlConfig.model_validate({"observation": {"coef": 0.01, "type": "k2", "scope": "image"}})
KL = policy.observation_kl(CONFIG.observation)
FROZEN = Extension(actor=FrozenVisionWorker)


def extensions_of(run):
    return policy.policy_extensions(run, DocAgentConfig.parse(plain(run.docagent)))


@pytest.mark.parametrize(
    ("kl", "freeze", "expected"),
    [
        (0, "false", []),
        (0.01, "false", [policy.PolicyWorker]),
        (0, "true", [FrozenVisionWorker]),
        (0.01, "true", [policy.PolicyWorker, FrozenVisionWorker]),
    ],
)
def test_a_run_gets_what_it_configures(recipe, kl, freeze, expected):
    values = f"docagent.kl.observation.coef={kl}", f"{ACTOR_KEY}={freeze}"
    found = worker_class(ActorRolloutRefWorker, extensions_of(recipe("vrag_rl_qwen2_5_vl_7b", *values)))
    known = (policy.PolicyWorker, FrozenVisionWorker)
    assert [kind for kind in found.actor_worker_cls.__mro__ if kind in known] == expected
    assert issubclass(found.actor_worker_cls, TrainingWorker)
    assert (
        (found.ref_worker_cls is policy.ReferenceWorker)
        == (kl > 0)
        == issubclass(found, policy.ObservationKlMixin)
    )
    assert not issubclass(found.ref_worker_cls, FrozenVisionWorker)


def test_the_loss_over_sessions_comes_with_the_section(recipe):
    assert extensions_of(recipe("mm_doc_r1_qwen3_8b", "docagent.loss.aggregation=session")) == [SESSION_LOSS]


def test_each_extension_sees_a_call_in_order():
    calls = []

    def kind(name):
        class Kind(TrainingWorker):
            def reset(self):
                calls.append(name)
                if name != "last":
                    super().reset()

        return Kind

    class Outer:
        def init_model(self):
            calls.append(self.tone)

    extensions = [Extension(Outer, kind("first"), settings={"tone": "outer"}), Extension(actor=kind("last"))]
    found = worker_class(ActorRolloutRefWorker, extensions)
    found.init_model(object.__new__(found))
    found.actor_worker_cls.reset(object.__new__(found.actor_worker_cls))
    assert calls == ["outer", "first", "last"]
    assert found.ref_worker_cls is TrainingWorker


@pytest.mark.parametrize("base", [ActorRolloutRefWorker, DetachActorWorker])
@pytest.mark.parametrize("role", [Role.Actor, Role.ActorRollout, Role.ActorRolloutRef])
def test_the_policys_worker_is_replaced_and_no_other(base, role):
    others = {Role.Critic: ray.remote(TrainingWorker), Role.RefPolicy: ray.remote(base)}
    mapping = {role: ray.remote(base), **others}
    before = dict(mapping)
    policy.install_workers(mapping, [])
    assert mapping == before
    policy.install_workers(mapping, [KL])
    assert {name: mapping[name] for name in others} == others
    found = mapping[role].__ray_actor_class__
    assert issubclass(found, base)
    assert found.observation_kl == CONFIG.observation
    assert (found.actor_worker_cls, found.ref_worker_cls) == (policy.PolicyWorker, policy.ReferenceWorker)


def test_the_worker_keeps_what_verl_calls_from_afar():
    ours = worker_class(ActorRolloutRefWorker, [KL, FROZEN, SESSION_LOSS])
    assert issubclass(ours.actor_worker_cls, SessionCountWorker)
    assert issubclass(ours.actor_worker_cls, FrozenVisionWorker)
    for name in dir(ActorRolloutRefWorker):
        registered = getattr(getattr(ActorRolloutRefWorker, name), MAGIC_ATTR, None)
        assert getattr(getattr(ours, name), MAGIC_ATTR, None) == registered, name
    assert getattr(ours.init_model, MAGIC_ATTR)["dispatch_mode"] is Dispatch.ONE_TO_ALL
    assert ours.init_model is policy.ObservationKlMixin.init_model
