"""Notices the death of agent loop workers, for whose sessions the trainer would wait without end.

verl's trainer hands prompts to the workers and then looks into the replay buffer until enough of them are
finished. A worker that died, for example for want of memory, never finishes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, ActorUnavailableError

from docagent_rl.errors import InfrastructureError

INTERVAL_S = 5.0
"""Seconds between two looks at the workers."""


class WorkerWatch:
    """Asks actors for a sign of life, without waiting for those that are busy.

    Args:
        actors: to look after.
    """

    def __init__(self, actors: Sequence[ActorHandle]):
        self._actors = actors
        self._asked: dict[int, ray.ObjectRef] = {}

    def check(self) -> None:
        """Look at all of them once.

        Raises:
            InfrastructureError: one has died.
        """
        for number, actor in enumerate(self._actors):
            if number not in self._asked:
                self._asked[number] = actor.__ray_ready__.remote()
            answered, _ = ray.wait([self._asked[number]], timeout=0)
            if answered:
                self._heard(number, self._asked.pop(number))

    def _heard(self, number: int, answer: ray.ObjectRef) -> None:
        try:
            ray.get(answer)
        except ActorUnavailableError:
            return  # out of reach for now, for example for the network's sake: asked again at the next look
        except ActorDiedError as error:
            raise InfrastructureError(
                f"agent loop worker {number} of {len(self._actors)} died, and its sessions with it: {error} "
                "If it was out of memory, lower data.train_batch_size or "
                "actor_rollout_ref.rollout.agent.num_workers. Start again: the run goes on from its last "
                "checkpoint."
            ) from error


def watch_while_waiting(replay_buffer: Any, workers: Callable[[], Sequence[ActorHandle]]) -> None:
    """Look after the workers whenever the buffer waits for them.

    Args:
        replay_buffer: verl's; a sampler of a user that waits in its own way is left alone.
        workers: the actors, once there are any.
    """
    wait = getattr(replay_buffer, "_wait_for_next_poll", None)
    if wait is None:
        return
    watch, due = None, 0.0

    def watched_wait(*args: Any, **kwargs: Any) -> Any:
        nonlocal watch, due
        if time.monotonic() >= due:
            watch = watch or WorkerWatch(workers())
            watch.check()
            due = time.monotonic() + INTERVAL_S
        return wait(*args, **kwargs)

    replay_buffer._wait_for_next_poll = watched_wait
