from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor

import torch
import verl.workers.rollout.vllm_rollout.bucketed_weight_transfer as upstream
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from verl.workers.rollout.vllm_rollout.vllm_rollout import ServerAdapter

from docagent_rl.patches.weight_transfer_address import RUN_VARIABLE, own_address


def test_upstream_still_names_the_address_after_the_job_of_a_cluster():
    sender = inspect.getsource(ServerAdapter.__init__)
    assert "/tmp/rl-colocate-zmq-{job_id}-replica-{self.replica_rank}-rank-{local_rank}.sock" in sender
    assert "job_id = ray.get_runtime_context().get_job_id()" in sender
    receiver = inspect.getsource(vLLMColocateWorkerExtension._get_zmq_handle)
    assert "/tmp/rl-colocate-zmq-{job_id}-replica-{replica_rank}-rank-{trainer_rank}.sock" in receiver


def test_upstream_still_takes_the_other_senders_socket_away(tmp_path, monkeypatch):
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    path = tmp_path / "one.sock"
    first, second = (upstream.BucketedWeightSender(f"ipc://{path}", 1, True) for _ in range(2))
    first._init_socket()
    before = path.stat().st_ino
    second._init_socket()
    assert path.stat().st_ino != before
    first.socket.close(linger=0)
    second.socket.close(linger=0)


def test_runs_side_by_side_keep_their_weights(tmp_path, monkeypatch):
    pairs = []
    for run in ("a", "b"):
        monkeypatch.setenv(RUN_VARIABLE, run)
        handle = f"ipc://{tmp_path}/same.sock"
        weights = [("weight", torch.full((3,), float(ord(run))))]
        sender = upstream.BucketedWeightSender(handle, bucket_size_mb=1, use_shm=True)
        receiver = upstream.BucketedWeightReceiver(handle, torch.device("cpu"), use_shm=True)
        pairs.append((run, sender, receiver, weights))
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(asyncio.run, s.async_send_weights(iter(w))) for _, s, _, w in pairs]
        taken = [pool.submit(take, receiver) for _, _, receiver, _ in pairs]
        assert [t.result(60) for t in taken] == [{"weight": [97.0] * 3}, {"weight": [98.0] * 3}]
        assert [s.result(60) for s in sent] == [None, None]


def take(receiver: upstream.BucketedWeightReceiver) -> dict[str, list[float]]:
    found = {}
    receiver.receive_weights(
        on_bucket_received=lambda weights, *_, **__: found.update({k: v.tolist() for k, v in weights})
    )
    return found


def test_addresses(monkeypatch):
    monkeypatch.setenv(RUN_VARIABLE, "abc")
    assert own_address("ipc:///tmp/x.sock") == "ipc:///tmp/x-abc.sock"
    assert own_address("tcp://127.0.0.1:1") == "tcp://127.0.0.1:1"
    monkeypatch.delenv(RUN_VARIABLE)
    assert own_address("ipc:///tmp/x.sock") == "ipc:///tmp/x.sock"
