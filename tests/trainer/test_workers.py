from __future__ import annotations

import pickle
import struct

import cloudpickle
import pytest
import ray
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.single_controller.base.decorator import MAGIC_ATTR, Dispatch
from verl.trainer.ppo.utils import Role
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.losses.config import KlConfig
from docagent_rl.trainer.workers import (
    ObservationKlMixin,
    PolicyWorker,
    ReferenceWorker,
    install_workers,
    worker_class,
)

COEF = 0.0123456789
CONFIG = KlConfig.model_validate({"observation": {"coef": COEF, "type": "k2", "scope": "image"}})


def test_nothing_changes_where_the_term_is_off():
    mapping = {Role.ActorRolloutRef: ray.remote(ActorRolloutRefWorker)}
    before = dict(mapping)
    install_workers(mapping, KlConfig())
    assert mapping == before


@pytest.mark.parametrize("base", [ActorRolloutRefWorker, DetachActorWorker])
@pytest.mark.parametrize("role", [Role.Actor, Role.ActorRollout, Role.ActorRolloutRef])
def test_the_policys_worker_is_replaced_and_no_other(base, role):
    others = {Role.Critic: ray.remote(TrainingWorker), Role.RefPolicy: ray.remote(base)}
    mapping = {role: ray.remote(base), **others}
    install_workers(mapping, CONFIG)
    assert {name: mapping[name] for name in others} == others
    found = mapping[role].__ray_actor_class__
    assert issubclass(found, base)
    assert found.observation_kl == CONFIG.observation
    assert (found.actor_worker_cls, found.ref_worker_cls) == (PolicyWorker, ReferenceWorker)


def test_the_worker_keeps_what_verl_calls_from_afar():
    ours = worker_class(ActorRolloutRefWorker, CONFIG.observation)
    for name in dir(ActorRolloutRefWorker):
        registered = getattr(getattr(ActorRolloutRefWorker, name), MAGIC_ATTR, None)
        assert getattr(getattr(ours, name), MAGIC_ATTR, None) == registered, name
    assert getattr(ours.init_model, MAGIC_ATTR)["dispatch_mode"] is Dispatch.ONE_TO_ALL
    assert ours.init_model is ObservationKlMixin.init_model


def test_the_section_travels_with_the_class():
    ours = worker_class(ActorRolloutRefWorker, CONFIG.observation)
    # Ray sends classes that no module holds by value, what they hold included
    sent = cloudpickle.dumps(ours)
    assert struct.pack(">d", COEF) in sent
    assert pickle.loads(sent).observation_kl == CONFIG.observation
