"""Deaths among certain actors of a run, for a trainer that replaces them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError

from docagent_rl.watch.actors import read_actors
from docagent_rl.watch.engines import engine_is_well

logger = logging.getLogger(__name__)


class Deaths:
    """Finds dead actors by Ray's table, and dead engines by asking their servers."""

    def __init__(self) -> None:
        self._asked: dict[str, ray.ObjectRef] = {}

    def find(
        self, servers: Mapping[str, ActorHandle], workers: Collection[str], wait_s: float = 0.0
    ) -> dict[str, str]:
        """Return descriptions of the dead among these actors, by id.

        With `wait_s` servers are asked anew, and get that many seconds to answer; otherwise the
        answers to the last call are used, and an engine's death is found one call later.
        """
        if wait_s:
            self._asked = {key: _ask(server) for key, server in servers.items()}
            ray.wait([*self._asked.values()], num_returns=len(self._asked), timeout=wait_s)
        try:
            rows = {actor.id: actor for actor in read_actors() if actor.death}
        except RayError as error:  # Ray's tables are not reachable right now
            logger.debug("could not look for dead parts: %s", error)
            return {}
        wanted = [*servers, *workers]
        dead = {key: f"{rows[key].label} died: {rows[key].death}" for key in wanted if key in rows}
        for key, server in servers.items():
            if key not in dead and self._engine_died(key, server):
                dead[key] = f"the vLLM engine of rollout server {key} died."
        return dead

    def _engine_died(self, key: str, server: ActorHandle) -> bool:
        asked = self._asked.pop(key, None)
        if asked is not None and not ray.wait([asked], timeout=0)[0]:
            self._asked[key] = asked
            return False
        self._asked[key] = _ask(server)
        if asked is None:
            return False
        try:
            return ray.get(asked) is False
        except RayError:  # the server died, or cannot be reached: Ray's table knows
            return False


def _ask(server: ActorHandle) -> ray.ObjectRef:
    return server.__ray_call__.remote(engine_is_well)
