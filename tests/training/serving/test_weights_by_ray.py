"""Weights are sent through Ray: in buckets, from a sender to two receivers."""

import asyncio

import pytest
import ray
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.checkpoint_engine import CheckpointEngineRegistry

from docagent_rl.training.serving.weights_by_ray import BACKEND, RayCheckpointEngine, buckets

WEIGHTS = {
    "embed": torch.arange(6, dtype=torch.float32).view(2, 3),
    "head": torch.arange(8, dtype=torch.bfloat16),
    "norm": torch.ones(1, dtype=torch.float64),
}


@pytest.fixture(scope="module")
def local_ray():
    ray.init(address="local", num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@given(st.lists(st.integers(1, 12), max_size=12), st.integers(1, 40))
def test_buckets_hold_all_weights_in_order_and_as_many_as_fit(sizes, most):
    weights = [
        (str(number), torch.zeros(size, dtype=torch.uint8)) for number, size in enumerate(sizes)
    ]
    made = list(buckets(weights, most))
    assert [name for bucket in made for name, _ in bucket] == [name for name, _ in weights]
    totals = [sum(weight.nbytes for _, weight in bucket) for bucket in made]
    for bucket, total in zip(made, totals, strict=True):
        assert total <= most or len(bucket) == 1
    for total, following in zip(totals, made[1:], strict=False):
        assert total + following[0][1].nbytes > most


def test_verl_finds_it_by_its_name():
    assert CheckpointEngineRegistry.get(BACKEND) is RayCheckpointEngine


def test_every_receiver_gets_every_weight(local_ray):
    sender = RayCheckpointEngine(bucket_size=24, is_master=True)
    other = RayCheckpointEngine(bucket_size=24)
    receivers = [RayCheckpointEngine(bucket_size=24), RayCheckpointEngine(bucket_size=24)]
    senders, takers = RayCheckpointEngine.build_topology(2, 2, [])
    for engine, arguments in ((sender, senders), (other, senders)):
        engine.init_process_group(arguments["mailbox"][0], arguments["receiver"][0])
    for number, engine in enumerate(receivers):
        engine.init_process_group(takers["mailbox"][number], takers["receiver"][number])
    gathered = []

    def gather():
        for name, weight in WEIGHTS.items():
            gathered.append(name)
            yield name, weight

    async def take(engine):
        return [item async for item in engine.receive_weights(global_steps=1)]

    async def update():
        return await asyncio.gather(
            sender.send_weights(gather(), 1), other.send_weights(gather(), 1), *map(take, receivers)
        )

    _, _, *received = asyncio.run(update())
    assert len(gathered) == 2 * len(
        WEIGHTS
    )  # weights are gathered by all processes of the policy together
    for found in received:
        assert [name for name, _ in found] == list(WEIGHTS)
        assert all(torch.equal(weight, WEIGHTS[name]) for name, weight in found)
        assert all(weight.dtype is WEIGHTS[name].dtype for name, weight in found)
    sender.finalize()
    with pytest.raises(RuntimeError, match="init_process_group"):
        asyncio.run(sender.send_weights(iter(WEIGHTS.items())))
