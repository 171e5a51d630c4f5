"""A failed weight transfer ends with an error on both sides instead of hanging.

Upstream: verl 0.9.1, `verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py`,
`BucketedWeightSender` and `BucketedWeightReceiver`. Both wait on their ZMQ socket without a
timeout: if one side fails, the other waits forever, and the run hangs without a message.

Here every send and receive has a deadline (`DOCAGENT_RL_WEIGHT_TRANSFER_TIMEOUT_S`, 600 s), and a
receiver that fails to load a bucket replies with the error, which is raised in the trainer at once.

No longer needed once verl sets a timeout and reports the receiver's error.
"""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import AsyncIterable, Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import zmq

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.training.patching import SERVING, TRAINING, Patch, replace

if TYPE_CHECKING:
    from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import (
        BucketedWeightReceiver,
        BucketedWeightSender,
    )

TIMEOUT_VARIABLE = "DOCAGENT_RL_WEIGHT_TRANSFER_TIMEOUT_S"
DEFAULT_TIMEOUT_S = 600.0


def timeout_s() -> float:
    """Return the deadline for one message in seconds.

    Raises:
        UserError: the environment variable is not a positive number.
    """
    text = os.environ.get(TIMEOUT_VARIABLE, str(DEFAULT_TIMEOUT_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < 1e6:
        raise UserError(f"{TIMEOUT_VARIABLE}={text!r}: it must be a positive number of seconds")
    return seconds


class CheckedSocket:
    """The sender's socket, which treats any reply but the empty acknowledgement as an error."""

    def __init__(self, socket: zmq.Socket) -> None:
        self._socket = socket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv(self) -> bytes:
        """Return the acknowledgement, or raise `InfrastructureError` with the receiver's error."""
        reply = self._socket.recv()
        if reply:
            raise InfrastructureError(
                f"the rollout worker failed to load the weights: {reply.decode()}"
            )
        return reply


def _set_deadlines(socket: zmq.Socket) -> None:
    milliseconds = int(timeout_s() * 1000)
    # without a peer, a socket also blocks in send, and in close if there are unsent messages
    for option in (zmq.RCVTIMEO, zmq.SNDTIMEO, zmq.LINGER):
        socket.setsockopt(option, milliseconds)


def _no_answer(who: str, handle: str) -> InfrastructureError:
    return InfrastructureError(
        f"weight transfer: no message from the {who} at {handle} within {timeout_s():g} s. See its "
        f"log for the reason; if it is only slow, raise {TIMEOUT_VARIABLE}"
    )


def _patch_sender(sender: type[BucketedWeightSender]) -> None:
    init_socket = sender._init_socket
    send_weights = sender.async_send_weights

    def _init_socket(self: Any) -> None:
        init_socket(self)
        _set_deadlines(self.socket)
        self.socket = CheckedSocket(self.socket)

    @functools.wraps(send_weights)
    async def async_send_weights(self: Any, weights: Iterable | AsyncIterable) -> None:
        try:
            await send_weights(self, weights)
        except zmq.Again as error:
            raise _no_answer("rollout worker", self.zmq_handle) from error

    replace(sender, "_init_socket", _init_socket)
    replace(sender, "async_send_weights", async_send_weights)


def _patch_receiver(receiver: type[BucketedWeightReceiver]) -> None:
    init_socket = receiver._init_socket
    receive_weights = receiver.receive_weights

    def _init_socket(self: Any) -> None:
        init_socket(self)
        _set_deadlines(self.socket)

    @functools.wraps(receive_weights)
    def receive_and_report(self: Any, on_bucket_received: Callable) -> None:
        failures: list[Exception] = []

        def report(weights: list, is_last: bool) -> None:
            try:
                on_bucket_received(weights, is_last)
            except Exception as error:  # any error has to reach the other process
                self.socket.send(f"{type(error).__name__}: {error}".encode())
                failures.append(error)
                raise

        try:
            receive_weights(self, on_bucket_received=report)
        except zmq.Again as error:
            raise _no_answer("trainer", self.zmq_handle) from error
        except BufferError as error:
            if not failures:
                raise
            # the shared memory could not be closed, because frames of the failure reference it
            traceback.clear_frames(error.__traceback__)
            traceback.clear_frames(failures[0].__traceback__)
            self._cleanup()
            raise failures[0] from None

    replace(receiver, "_init_socket", _init_socket)
    replace(receiver, "receive_weights", receive_and_report)


def _apply(module: ModuleType) -> None:
    _patch_sender(module.BucketedWeightSender)
    _patch_receiver(module.BucketedWeightReceiver)


PATCH = Patch(
    name="weight_transfer_timeout",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py",
    reason="a failed weight transfer leaves the other side waiting forever",
    target_module="verl.workers.rollout.vllm_rollout.bucketed_weight_transfer",
    apply=_apply,
    processes=TRAINING | SERVING,
)
