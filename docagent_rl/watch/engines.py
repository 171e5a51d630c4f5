"""Health checks of vLLM's engines, whose processes can die or hang while their servers live on."""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError

from docagent_rl.watch.actors import AGAIN, REMEDY, Actor, ActorState

logger = logging.getLogger(__name__)

SERVER = "vLLMHttpServer"
"""Class name of verl's rollout servers, including those of reward models and teachers."""


def engine_is_well(server: Any) -> bool | None:
    """Return whether vLLM considers its engine healthy; runs in a rollout server, in its own
    thread.

    `None` means that the server has no engine: it has not been started yet, or it runs elsewhere,
    as with verl's servers on further nodes.
    """
    engine = getattr(server, "engine", None)
    return None if engine is None else not engine.errored


@dataclass(slots=True)
class _Asked:
    answer: ray.ObjectRef
    at: float = field(default_factory=lambda: time.monotonic())

    @property
    def answered(self) -> bool:
        return bool(ray.wait([self.answer], timeout=0)[0])


@dataclass(slots=True)
class Engines:
    """The engines of a run; one that does not respond for `timeout_s` seconds counts as hung."""

    timeout_s: float | None
    _states: dict[str, _Asked] = field(default_factory=dict)
    _questions: dict[str, _Asked] = field(default_factory=dict)
    _failed: bool = False

    def look(
        self, actors: Sequence[Actor], wait_s: float = 0.0, excused: Collection[str] = ()
    ) -> str | None:
        """Query every server without blocking; return a message if an engine died or hangs.

        A health check goes to every worker of the engine, and is queued behind the work that the
        engine is doing, such as a weight update. With `wait_s` the servers are queried anew and get
        that many seconds to respond; with 0 only the responses received so far are used. The
        engines of `excused` servers may die, but not hang.
        """
        servers = [
            actor
            for actor in actors
            if actor.class_name == SERVER and actor.name and actor.state is ActorState.ALIVE
        ]
        handles = {
            server.id: ray.get_actor(server.name, namespace=server.namespace) for server in servers
        }
        for key, handle in handles.items():
            # a response from before the wait may be older than the death of an engine
            if wait_s or key not in self._states:
                self._states[key] = _Asked(handle.__ray_call__.remote(engine_is_well))
        if handles and wait_s:
            answers = [self._states[key].answer for key in handles]
            ray.wait(answers, num_returns=len(answers), timeout=wait_s)
        problems = (
            self._problem(server, handles[server.id], excused=server.id in excused)
            for server in servers
        )
        return next(filter(None, problems), None)

    def _problem(self, server: Actor, handle: ActorHandle, *, excused: bool) -> str | None:
        is_well = self._state(server)
        if is_well is False and excused:
            return None
        if is_well is False:
            return (
                f"the vLLM engine of {server.label} died (EngineDeadError).\n  The lines above "
                f"marked EngineCore may say why. {REMEDY}"
            )
        asked = self._questions.get(server.id)
        if is_well and (asked is None or asked.answered):
            self._questions[server.id] = _Asked(handle.collective_rpc.remote("check_health"))
        asked = self._questions.get(server.id)
        if self.timeout_s is None or asked is None:
            return None  # not checked yet: the engine may be loading its model
        # a server whose process is stopped does not respond to the state query either
        waiting = self._states.get(server.id) if asked.answered else asked
        if waiting is None or waiting.answered:
            return None
        silent_s = time.monotonic() - waiting.at
        if silent_s < self.timeout_s:
            return None
        return (
            f"the vLLM engine of {server.label} hangs: it has not responded for {silent_s:.0f} s "
            f"(docagent.watch.engine_timeout_s={self.timeout_s:g}).\n  {AGAIN}"
        )

    def _state(self, server: Actor) -> bool | None:
        asked = self._states[server.id]
        if not asked.answered:
            return None
        del self._states[server.id]
        try:
            return ray.get(asked.answer)
        except (ActorDiedError, ActorUnavailableError):
            return None  # the death of the server itself is reported from Ray's table
        except RayError as error:
            if not self._failed:
                logger.warning(
                    "cannot check the engine of %s, which is not monitored any more: %s",
                    server.label,
                    error,
                )
            self._failed = True
            return None
