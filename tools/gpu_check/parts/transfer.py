"""Check the transfer of weights from the trainer's process to the rollout's.

verl's own sender and receiver are used. On a GPU, weights go over CUDA IPC, and one tensor is above
2 GiB and fits into no bucket; elsewhere they go over shared memory. In a second round the receiver
fails, and both sides must report it at once instead of waiting.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.checks.rates import RateName
from docagent_rl.patches.weight_transfer_timeout import TIMEOUT_VARIABLE
from tools.gpu_check.check import CheckError, Machine, Result, expect, passed
from tools.gpu_check.without_vllm import open_rollout_package

MIB = 2**20
WAIT_S = 60.0
SEED = 7


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    os.environ[TIMEOUT_VARIABLE] = str(WAIT_S)
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    handles = [f"ipc://{folder}/{name}.sock" for name in ("whole", "failing")]
    # a daemon ends together with this process, whatever happens
    process = context.Process(target=_receive, args=(machine, handles, theirs), daemon=True)
    process.start()
    theirs.close()
    reply = _reply(mine)
    expect(reply == "ready", f"the receiver did not start: {reply}")
    shapes = _shapes(machine)
    failure, seconds = _send(machine, handles[0])
    reply = _reply(mine)
    expect(not failure and not reply["error"], failure or reply["error"])
    expect(
        sorted(reply["arrived"]) == sorted(shapes),
        f"arrived {reply['arrived']}, sent {sorted(shapes)}",
    )
    expect(not reply["different"], f"different numbers arrived: {reply['different']}")
    failure, failing_s = _send(machine, handles[1])
    reply = _reply(mine)
    expect(
        "KeyError" in failure, f"the sender did not learn of the failure: {failure or 'no error'}"
    )
    expect(
        "KeyError" in reply["error"], f"the receiver's error was lost: {reply['error'] or 'none'}"
    )
    expect(failing_s < WAIT_S / 2, f"the failure was reported only after {failing_s:.0f} s")
    process.join(WAIT_S)
    expect(not process.is_alive(), "the receiver did not end")
    sizes = [torch.Size(shape).numel() * 2 / MIB for shape in shapes.values()]
    way = "shared memory" if machine.gpu is None else "CUDA IPC"
    sent = f"{sum(sizes):.0f} MiB by {way} in {seconds:.1f} s, largest tensor {max(sizes):.0f} MiB"
    text = f"{sent}; a failure is reported after {failing_s:.1f} s"
    return passed(
        text,
        rates={RateName.SYNC: sum(sizes) * MIB / seconds},
        mib=sum(sizes),
        seconds=seconds,
        largest_mib=max(sizes),
        failure_seconds=failing_s,
    )


def _reply(pipe: Connection) -> Any:
    """Wait for the receiver's next message."""
    expect(pipe.poll(WAIT_S * 2), "the receiver did not answer")
    try:
        return pipe.recv()
    except EOFError:
        raise CheckError("the receiver ended") from None


def _shapes(machine: Machine) -> dict[str, tuple[int, ...]]:
    if machine.gpu is None:
        return {"first": (300, 1000), "second": (7,), "third": (600, 1000)}
    return {"first": (4096, 4096), "huge": (1_200_000, 1024), "last": (152_064, 3584)}


def _weights(machine: Machine) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights, which are the same in both processes since the seeds are fixed."""
    for number, (name, shape) in enumerate(_shapes(machine).items()):
        draw = torch.Generator(machine.device).manual_seed(SEED + number)
        yield name, torch.randn(shape, generator=draw, device=machine.device, dtype=torch.bfloat16)


def _send(machine: Machine, handle: str) -> tuple[str, float]:
    """Send all weights; return the sender's error (empty without one) and the seconds it took."""
    open_rollout_package()
    from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightSender

    on_gpu = machine.gpu is not None
    sender = BucketedWeightSender(handle, 512 if on_gpu else 2, use_shm=not on_gpu)
    began = time.monotonic()
    try:
        asyncio.run(sender.async_send_weights(_weights(machine)))
    except InfrastructureError as error:
        return str(error), time.monotonic() - began
    return "", time.monotonic() - began


def _receive(machine: Machine, handles: list[str], tell: Connection) -> None:
    """Receive the weights of the first handle, and fail at those of the second; send results.

    This runs in the rollout's process.
    """
    open_rollout_package()
    from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver

    expected = dict(_weights(machine))
    tell.send("ready")
    for handle, fails in zip(handles, (False, True), strict=True):
        arrived: list[str] = []
        different: list[str] = []

        def take(
            weights: list[tuple[str, Tensor]],
            is_last: bool,
            fails=fails,
            names=arrived,
            bad=different,
        ):
            if fails:
                raise KeyError("a weight that the server does not know")
            names += [name for name, _ in weights]
            bad += [name for name, tensor in weights if not torch.equal(tensor, expected[name])]

        # handles are opened by the index of the device
        device = torch.device("cpu") if machine.gpu is None else torch.device("cuda", 0)
        error = ""
        try:
            BucketedWeightReceiver(handle, device, use_shm=machine.gpu is None).receive_weights(
                take
            )
        except (KeyError, InfrastructureError, RuntimeError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        tell.send({"error": error, "arrived": arrived, "different": different})
