from __future__ import annotations

import asyncio
import functools
import threading
import uuid
from collections.abc import Callable

import pytest
import torch
import verl.workers.rollout.vllm_rollout.bucketed_weight_transfer as upstream

from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.patches.weight_transfer_timeout import TIMEOUT_VARIABLE, timeout_s

WEIGHTS = [("a", torch.arange(6.0).reshape(2, 3)), ("b", torch.full((200_000,), 2.0)), ("c", torch.ones(1))]


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setenv(TIMEOUT_VARIABLE, "3600")


@pytest.fixture
def handle(tmp_path) -> str:
    return f"ipc://{tmp_path}/{uuid.uuid4().hex[:8]}.sock"


def sender(handle: str) -> upstream.BucketedWeightSender:
    return upstream.BucketedWeightSender(handle, bucket_size_mb=1, use_shm=True)


def receiver(handle: str) -> upstream.BucketedWeightReceiver:
    return upstream.BucketedWeightReceiver(handle, torch.device("cpu"), use_shm=True)


def hangs(call: Callable[[], object]) -> None:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()


def original(monkeypatch, side, *names):
    for name in names:
        monkeypatch.setattr(side, name, getattr(side, name).__wrapped__)


def test_upstream_sender_still_waits_without_end(handle, monkeypatch):
    original(monkeypatch, upstream.BucketedWeightSender, "_init_socket", "async_send_weights")
    lonely = sender(handle)
    hangs(lambda: asyncio.run(lonely.async_send_weights(iter(WEIGHTS))))
    receiver(handle).receive_weights(lambda weights, is_last: None)  # lets the thread end


def test_upstream_receiver_still_waits_without_end(handle, monkeypatch):
    original(monkeypatch, upstream.BucketedWeightReceiver, "_init_socket", "receive_weights")
    lonely = receiver(handle)
    hangs(lambda: lonely.receive_weights(lambda weights, is_last: None))
    asyncio.run(sender(handle).async_send_weights(iter(WEIGHTS)))


def test_neither_side_waits_without_end_for_the_other(handle, monkeypatch):
    monkeypatch.setenv(TIMEOUT_VARIABLE, "0.3")
    with pytest.raises(InfrastructureError, match=TIMEOUT_VARIABLE):
        asyncio.run(sender(handle).async_send_weights(iter(WEIGHTS)))
    with pytest.raises(InfrastructureError, match=TIMEOUT_VARIABLE):
        receiver(handle).receive_weights(lambda weights, is_last: None)


def test_weights_arrive_unchanged_over_several_buckets(handle):
    arrived, lasts = {}, []

    def keep(weights, is_last):
        arrived.update((name, tensor.clone()) for name, tensor in weights)
        lasts.append(is_last)

    weights = [*WEIGHTS, ("d", torch.rand(100_000))]
    send = functools.partial(asyncio.run, sender(handle).async_send_weights(iter(weights)))
    thread = threading.Thread(target=send)
    thread.start()
    receiver(handle).receive_weights(keep)
    thread.join(60)
    assert lasts == [False, True]
    assert all(torch.equal(arrived[name], tensor) for name, tensor in weights)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_error_in_a_bucket_reaches_the_sender_at_once_and_stays_itself(handle):
    errors = []
    side = receiver(handle)

    def refuse(weights, is_last):
        raise KeyError("model.layers.9")

    def receive():
        try:
            side.receive_weights(refuse)
        except KeyError as error:
            errors.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    with pytest.raises(InfrastructureError, match=r"KeyError: 'model.layers.9'"):
        asyncio.run(sender(handle).async_send_weights(iter(WEIGHTS)))
    thread.join(60)
    assert len(errors) == 1
    assert side.socket is None
    assert side.shm is None


@pytest.mark.parametrize("text", ["0", "-3", "soon", "nan"])
def test_senseless_timeout_is_refused(monkeypatch, text):
    monkeypatch.setenv(TIMEOUT_VARIABLE, text)
    with pytest.raises(UserError, match=TIMEOUT_VARIABLE):
        timeout_s()
