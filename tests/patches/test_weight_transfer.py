"""Weights are sent to the rollout server at an address of their own, and no side waits forever."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import verl.workers.rollout.vllm_rollout.bucketed_weight_transfer as upstream
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from verl.workers.rollout.vllm_rollout.vllm_rollout import ServerAdapter

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.patches.weight_transfer_timeout import TIMEOUT_VARIABLE, timeout_s
from docagent_rl.watch.processes import RUN_VARIABLE, end_leftovers

LONELY = """
import asyncio, sys
import torch
import verl.workers.rollout.vllm_rollout.bucketed_weight_transfer as upstream
sender = upstream.BucketedWeightSender(sys.argv[1], bucket_size_mb=1, use_shm=True)
asyncio.run(sender.async_send_weights(iter([("a", torch.ones(1))])))
"""
WEIGHTS = [
    ("a", torch.arange(6.0).reshape(2, 3)),
    ("b", torch.full((200_000,), 2.0)),
    ("c", torch.ones(1)),
]


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setenv(TIMEOUT_VARIABLE, "3600")
    monkeypatch.delenv(RUN_VARIABLE, raising=False)


@pytest.fixture
def sides(tmp_path):
    """Return a function that makes a sender and a receiver: the sender gets the weights to send,
    the receiver a function for each bucket.
    """

    def make():
        handle = f"ipc://{tmp_path}/one.sock"
        sender = upstream.BucketedWeightSender(handle, bucket_size_mb=1, use_shm=True)
        receiver = upstream.BucketedWeightReceiver(handle, torch.device("cpu"), use_shm=True)
        return lambda weights: asyncio.run(sender.async_send_weights(iter(weights))), receiver

    return make


def ignore(weights, is_last):
    pass


def original(monkeypatch, side, *names):
    for name in names:
        monkeypatch.setattr(side, name, getattr(side, name).__wrapped__)


def test_upstream_still_names_the_address_after_the_job_of_a_cluster():
    sender = inspect.getsource(ServerAdapter.__init__)
    assert (
        "/tmp/rl-colocate-zmq-{job_id}-replica-{self.replica_rank}-rank-{local_rank}.sock" in sender
    )
    assert "job_id = ray.get_runtime_context().get_job_id()" in sender
    receiver = inspect.getsource(vLLMColocateWorkerExtension._get_zmq_handle)
    assert (
        "/tmp/rl-colocate-zmq-{job_id}-replica-{replica_rank}-rank-{trainer_rank}.sock" in receiver
    )


def test_runs_side_by_side_keep_their_weights(sides, monkeypatch):
    found, pairs = {"a": {}, "b": {}}, []
    for run in found:
        monkeypatch.setenv(RUN_VARIABLE, run)
        pairs.append(sides())
    with ThreadPoolExecutor(4) as pool:
        for run, (send, receiver) in zip(found, pairs, strict=True):
            pool.submit(send, [("weight", torch.full((3,), float(ord(run))))])

            def keep(weights, _, run=run):
                found[run].update({name: value.tolist() for name, value in weights})

            pool.submit(receiver.receive_weights, keep)
    assert found == {"a": {"weight": [97.0] * 3}, "b": {"weight": [98.0] * 3}}


@pytest.mark.parametrize("waits", ["sender", "receiver"])
def test_upstream_still_waits_without_end(sides, monkeypatch, waits):
    original(monkeypatch, upstream.BucketedWeightSender, "_init_socket", "async_send_weights")
    original(monkeypatch, upstream.BucketedWeightReceiver, "_init_socket", "receive_weights")
    send, receiver = sides()
    calls = [lambda: send(WEIGHTS), lambda: receiver.receive_weights(ignore)]
    lonely, other = calls if waits == "sender" else reversed(calls)
    monkeypatch.setenv(TIMEOUT_VARIABLE, "0.001")  # which upstream does not read
    thread = threading.Thread(target=lonely, daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    other()  # lets the thread end


def test_neither_side_waits_without_end_for_the_other(sides, monkeypatch):
    monkeypatch.setenv(TIMEOUT_VARIABLE, "0.1")
    send, receiver = sides()
    with pytest.raises(InfrastructureError, match=TIMEOUT_VARIABLE):
        send(WEIGHTS)
    with pytest.raises(InfrastructureError, match=TIMEOUT_VARIABLE):
        receiver.receive_weights(ignore)


def test_weights_arrive_unchanged_over_several_buckets(sides):
    arrived, lasts = {}, []

    def keep(weights, is_last):
        arrived.update((name, tensor.clone()) for name, tensor in weights)
        lasts.append(is_last)

    weights = [*WEIGHTS, ("d", torch.rand(100_000))]
    send, receiver = sides()
    thread = threading.Thread(target=send, args=(weights,))
    thread.start()
    receiver.receive_weights(keep)
    thread.join(60)
    assert lasts == [False, True]
    assert all(torch.equal(arrived[name], tensor) for name, tensor in weights)


@pytest.mark.parametrize("patched", [True, False])
def test_memory_has_no_name_once_both_sides_have_opened_it(sides, monkeypatch, patched):
    if not patched:  # upstream still keeps it
        original(monkeypatch, upstream.BucketedWeightSender, "_init_buffer")
    send, receiver = sides()
    named = []

    def keep(weights, is_last):
        named.append(Path("/dev/shm", receiver.shm.name).exists())

    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, WEIGHTS)
        receiver.receive_weights(keep)
        sent.result(60)
    assert set(named) == {not patched}


@pytest.mark.slow
def test_a_sender_killed_before_the_receiver_came_leaves_what_the_next_start_removes(tmp_path):
    """The sender's own process is killed with its memory's resource tracker, so nothing else
    removes the name.
    """
    environment = {**os.environ, RUN_VARIABLE: "killed1"}
    command = [sys.executable, "-c", LONELY, f"ipc://{tmp_path}/one.sock"]
    sender = subprocess.Popen(command, env=environment, start_new_session=True)
    memory = Path("/dev/shm")
    while not list(memory.glob("verl_weights_killed1_*")):
        assert sender.poll() is None
        time.sleep(0.05)
    os.killpg(sender.pid, signal.SIGKILL)
    sender.wait()
    other = memory / "verl_weights_killed12_0"
    other.touch()
    end_leftovers(["killed1"])
    assert not list(memory.glob("verl_weights_killed1_*"))
    assert other.exists()
    other.unlink()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_error_in_a_bucket_reaches_the_sender_at_once_and_stays_itself(sides):
    def refuse(weights, is_last):
        raise KeyError("model.layers.9")

    send, receiver = sides()
    with ThreadPoolExecutor(1) as pool:
        received = pool.submit(receiver.receive_weights, refuse)
        with pytest.raises(InfrastructureError, match=r"KeyError: 'model.layers.9'"):
            send(WEIGHTS)
        with pytest.raises(KeyError):
            received.result(60)
    assert receiver.socket is receiver.shm is None


@pytest.mark.parametrize("text", ["0", "-3", "soon", "nan"])
def test_senseless_timeout_is_refused(monkeypatch, text):
    monkeypatch.setenv(TIMEOUT_VARIABLE, text)
    with pytest.raises(UserError, match=TIMEOUT_VARIABLE):
        timeout_s()
