from __future__ import annotations

import pytest
import ray
import torch
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.single_controller.base.decorator import MAGIC_ATTR
from verl.trainer.ppo.utils import Role
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.training.losses.session_mean import session_tokens
from docagent_rl.training.workers import session_loss
from docagent_rl.training.workers.extensions import composed, worker_class
from docagent_rl.training.workers.frozen import FrozenVisionWorker
from docagent_rl.training.workers.policy import install_workers
from docagent_rl.training.workers.session_loss import SESSION_LOSS, SessionCountWorker, put_session_tokens
from tests.training.losses.batches import nested
from tests.training.ranks import last_report


@pytest.fixture(scope="module", params=[1, 2])
def report(request, tmp_path_factory, warm_python) -> dict:
    """Updates in verl's engine on one worker and on two, with a learning rate of 0."""
    folder = tmp_path_factory.mktemp("session")
    return last_report(warm_python, "tests.training.workers.session_engine", folder, ranks=request.param)


@pytest.mark.slow
@pytest.mark.parametrize("mini_batch", ["8", "4", "8 packed"])
def test_updates_of_verls_engine_against_a_loop_over_tokens(report, mini_batch):
    found = report[mini_batch]
    assert len(found["losses"]) == 8 // int(mini_batch.split()[0])
    assert found["losses"] == pytest.approx(found["expected"], rel=1e-4)
    assert found["error"] < 1e-4 * found["largest"]


@pytest.mark.parametrize("base", [ActorRolloutRefWorker, DetachActorWorker])
def test_the_policys_worker_is_replaced_where_it_is_asked(base):
    mapping = {Role.ActorRolloutRef: ray.remote(base), Role.Critic: ray.remote(TrainingWorker)}
    before = dict(mapping)
    install_workers(mapping, [SESSION_LOSS])
    found = mapping[Role.ActorRolloutRef].__ray_actor_class__
    assert issubclass(found, base)
    assert issubclass(found.actor_worker_cls, SessionCountWorker)
    assert issubclass(found.actor_worker_cls, base.actor_worker_cls)
    assert mapping[Role.Critic] == before[Role.Critic]


def test_the_frozen_tower_and_the_sessions_are_both_in_an_update():
    found = composed([FrozenVisionWorker, SESSION_LOSS.actor], TrainingWorker)
    assert found.__mro__.index(SessionCountWorker) < found.__mro__.index(TrainingWorker)


def test_the_worker_keeps_what_verl_calls_from_afar():
    ours = worker_class(ActorRolloutRefWorker, [SESSION_LOSS])
    for name in dir(ActorRolloutRefWorker):
        registered = getattr(getattr(ActorRolloutRefWorker, name), MAGIC_ATTR, None)
        assert getattr(getattr(ours, name), MAGIC_ATTR, None) == registered, name


class Queue:
    """The transfer queue as one dictionary of fields."""

    def __init__(self, masks):
        self.data = TensorDict({"response_mask": nested(masks)}, batch_size=len(masks))

    def kv_batch_get(self, keys, partition_id, select_fields):
        return self.data.select(*select_fields)

    def kv_batch_put(self, keys, partition_id, fields):
        self.data.update(fields)
        return KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id=partition_id)


def test_tokens_are_counted_over_all_rows_of_a_session(monkeypatch):
    masks = [[1, 0, 1], [1], [1, 1, 1, 1], [0, 0], [1, 1]]
    queue = Queue([torch.tensor(mask) for mask in masks])
    monkeypatch.setattr(session_loss, "tq", queue)
    keys = ["q_1_0_0", "q_1_1_0", "q_1_0_1", "pad_0_0", "q_1_0_2"]
    put_session_tokens(KVBatchMeta(keys=keys, tags=[{}] * 5, partition_id="train"))
    assert session_tokens(queue.data) == [8, 1, 8, 0, 8]
