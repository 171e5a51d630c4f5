"""Replace rollout servers and agent workers that die, and play the rollout of the step again.

All trajectories of the rollout are played again, those that had ended too. A death interrupts long
trajectories more often than short ones, so if only the interrupted ones were played again, long
ones would become rarer, and the policy would learn from a distribution that is not its own. It also
costs little: a rollout lasts as long as its longest trajectory.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

import transfer_queue as tq
from omegaconf import DictConfig
from ray.exceptions import RayError
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.training.serving.replacing import Servers, replaces_parts
from docagent_rl.training.trainer.base import TrainerPart
from docagent_rl.training.trainer.stopping import VALIDATION, RunStoppedError
from docagent_rl.watch.actors import NODE_S
from docagent_rl.watch.deaths import Deaths
from docagent_rl.watch.replaced import ReplacedParts

logger = logging.getLogger(__name__)

MOST = 2
"""The number of deaths that a run survives from the end of a step to that of the next one, or from
its start to the end of its first step; one more ends it. A worker that lives, but could not be
reached when a rollout began, counts as one.
"""
AGAIN_S = 1.0
"""Seconds between two looks for dead parts."""
ANSWER_S = 10.0
"""Seconds that a server gets to say whether its engine lives."""
UNREACHED = "an agent worker could not be reached when the rollout began"
REPLACED = "docagent/replaced"
"""Prefix of the metrics with the numbers of replaced parts."""


class Replacing:
    """Keeps a run's rollout servers and agent workers alive, between two weight updates.

    Servers are covered from a weight update to the next one, workers as long as a rollout may be
    going on: rows that are trained on refer to images that their workers have put into the store.

    Args:
        trainer: verl's trainer.
        manager: this package's agent loop manager.
    """

    def __init__(self, trainer: Any, manager: Any) -> None:
        self._trainer = trainer
        self._manager = manager
        self._checkpoints = trainer.checkpoint_manager
        self._servers = Servers(trainer.llm_server_manager)
        self._parts = ReplacedParts()
        self._deaths = Deaths()
        self._next = 0.0
        self._weights = trainer.global_steps
        """The version of the weights that the servers have."""
        self._ended: dict[str, str] = {}
        """Dead servers that the next weight update replaces, of which nothing is left."""
        self._counts = {"servers": 0, "workers": 0}
        self._of_step = 0

    def install(self) -> None:
        """Do what is needed before and after verl's weight updates."""
        self._update = self._checkpoints.update_weights
        self._sleep = self._checkpoints.sleep_replicas
        self._checkpoints.update_weights = self.update_weights
        self._checkpoints.sleep_replicas = self.sleep_replicas
        self._checkpoints.abort_replicas = self.abort_replicas
        self._servers.remember()
        self._cover(workers=True)

    def update_weights(self, global_steps: int | None = None) -> Any:
        """Replace dead servers, update the weights as verl does, and begin to cover all parts."""
        dead = self._ended | self._deaths.find(self._servers.handles, (), ANSWER_S)
        if dead:
            self._give_up_on_request(dead)
            self._try(partial(self._replace, dead))
        self._ended = {}
        self._parts.cover(())
        result = self._update(global_steps)
        if global_steps is not None:
            self._weights = global_steps
        self._cover(workers=True)
        return result

    def abort_replicas(self) -> None:
        """End the requests to the living servers, as verl does."""
        self._without(self._find_servers(), self._servers.abort)

    def sleep_replicas(self) -> None:
        """Put the living servers to sleep at the end of a rollout, and end what dead ones have
        left, whose memory the trainer needs; they are replaced before the next weight update.
        """
        self._cover(workers=False)
        dead = self._without(self._find_servers(), self._put_to_sleep)
        self._servers.end(dead.keys() - self._ended.keys())
        self._ended = dead

    def look(self, *, at_once: bool = False) -> bool:
        """Replace the dead and play the rollout again, if it is time to look for them.

        With `at_once` it is, and servers are asked anew.

        Returns:
            Whether the rollout is played again.
        """
        now = time.monotonic()
        if now < self._next and not at_once:
            return False
        self._next = now + AGAIN_S
        wait_s = ANSWER_S if at_once else 0.0
        dead = self._deaths.find(self._servers.handles, self._workers, wait_s)
        # a worker that lives and did not get its prompts will never play them
        if not dead and not self._manager.is_undelivered(NODE_S):
            return False
        self._give_up_on_request(dead)
        self._try(partial(self._recover, dead))
        return True

    def read(self) -> dict[str, float]:
        """Return the numbers of parts that were replaced since the last call, as metrics.

        From here on, `MOST` further deaths are survived.
        """
        found = {f"{REPLACED}/{name}": float(number) for name, number in self._counts.items()}
        self._counts = dict.fromkeys(self._counts, 0)
        self._of_step = 0
        return found

    def log_rest(self) -> None:
        """Log the numbers of parts that were replaced after the last step, which no metric has."""
        if any(self._counts.values()):
            logger.warning(
                "replaced after the last step, in no metric: %(servers)d servers and %(workers)d "
                "workers",
                self._counts,
            )

    @property
    def _workers(self) -> list[str]:
        return [worker._actor_id.hex() for worker in self._manager.workers]

    def _find_servers(self) -> dict[str, str]:
        """Return dead servers, those whose remains have been ended included."""
        return self._ended | self._deaths.find(self._servers.handles, ())

    def _give_up_on_request(self, dead: dict[str, str]) -> None:
        """Replace nothing in a run that has been asked to stop.

        Raises:
            RunStoppedError: it has been asked to, and the step can be abandoned.
        """
        reason = "; ".join(dead.values()) or UNREACHED
        try:
            self._trainer._give_up_on_request(reason)
        except RunStoppedError:
            self._parts.note(dead)  # the watchdog would end the run before its step is saved
            raise

    def _cover(self, *, workers: bool) -> None:
        self._parts.cover([*self._servers.handles, *(self._workers if workers else ())])

    def _try(self, recover: Callable[[], None]) -> None:
        """Recover from deaths; if that fails, let the watchdog report them."""
        with ExitStack() as on_failure:
            on_failure.callback(self._parts.cover, ())
            recover()
            on_failure.pop_all()

    def _recover(self, dead: dict[str, str]) -> None:
        """Play the rollout again, with new parts in place of dead ones and the same weights."""
        prompts = self._manager.prompts
        dead = self._without(dead, self._quiet, workers=True)
        needs_weights = bool(dead.keys() & self._servers.handles.keys())
        if needs_weights:
            dead = self._without(dead, self._servers.sleep)
        if dead:
            self._replace(dead)
        else:
            self._count([UNREACHED])
        if needs_weights:
            self.update_weights(self._weights)
        if prompts is not None:
            self._ask_again(prompts)

    def _quiet(self, dead: dict[str, str]) -> None:
        """End all trajectories with their requests, and forget images that may be lost."""
        self._manager.abandon(dead)
        self._servers.clear(dead)
        if dead.keys() & set(self._workers):
            self._manager.forget_images(dead)

    def _put_to_sleep(self, dead: dict[str, str]) -> None:
        if dead:
            self._servers.sleep(dead)
        else:
            self._sleep()

    def _without(
        self, dead: dict[str, str], work: Callable[[Any], None], *, workers: bool = False
    ) -> dict[str, str]:
        """Let the living parts do something, and again those that are left if one dies meanwhile.

        Returns:
            All dead ones.

        Raises:
            ray.exceptions.RayError: a part failed, and none has died.
        """
        while True:
            try:
                work(dead)
                return dead
            except RayError:
                more = self._await_deaths(dead, workers=workers)
                if not more:
                    raise
                dead = dead | more

    def _await_deaths(self, known: Collection[str], *, workers: bool) -> dict[str, str]:
        """Return the dead as soon as there are others than those that are known.

        Parts of a node that has died cannot be reached for a while before Ray calls them dead.
        """
        until = time.monotonic() + NODE_S
        while True:
            among = self._workers if workers else ()
            dead = self._deaths.find(self._servers.handles, among, ANSWER_S)
            if dead.keys() - set(known):
                return dead
            if time.monotonic() >= until:
                return {}
            time.sleep(AGAIN_S)

    def _replace(self, dead: dict[str, str]) -> None:
        """Replace dead parts.

        Raises:
            InfrastructureError: too many have died since the end of the last step.
        """
        self._count(dead.values())
        step = self._trainer.global_steps
        for message in dead.values():
            logger.warning("step %d: %s It is replaced.", step, message)
        began = time.monotonic()
        servers = dead.keys() & self._servers.handles.keys()
        workers = dead.keys() & set(self._workers)
        if servers:
            self._servers.replace(servers)
        if workers:
            self._manager.replace(workers)
        self._parts.note(dead)
        self._cover(workers=True)
        self._counts["servers"] += len(servers)
        self._counts["workers"] += len(workers)
        logger.warning("step %d: replaced in %.0f s", step, time.monotonic() - began)

    def _count(self, failures: Collection[str]) -> None:
        self._of_step += len(failures)
        if self._of_step > MOST:
            raise InfrastructureError(
                f"{self._of_step} rollout servers or agent workers died since the end of the last "
                f"step, of which at most {MOST} are replaced: {'; '.join(failures)}"
            )

    def _ask_again(self, prompts: TensorDict) -> None:
        """Remove what the rollout has left in the queue, and begin it again."""
        partition = VALIDATION if "validate" in prompts else "train"
        uids = [str(uid) for uid in cast("Sequence[str]", prompts["uid"])]
        queued = (tq.kv_list(partition) or {}).get(partition, {})
        own = set(uids)
        keys = [key for key in queued if key.split("_", 1)[0] in own]
        self._trainer.release_images([key for key in keys if key not in own])
        if keys:
            tq.kv_clear(keys=keys, partition_id=partition)
        step = cast("int", prompts["global_steps"])
        tags = [{"is_prompt": True, "status": "pending", "global_steps": step} for _ in uids]
        tq.kv_batch_put(keys=uids, partition_id=partition, tags=tags)
        logger.warning("the rollout of %d prompts is played again from its beginning", len(uids))
        self._manager.play_again()


class ReplacingMixin(TrainerPart):
    """The replacement of dead parts in verl's mode `sync`; part of `DocAgentTrainerMixin`."""

    config: DictConfig
    _replacing: Replacing | None = None

    def fit(self, agent_loop_manager: Any) -> None:
        """Train as verl does, with parts that are replaced if they die."""
        if replaces_parts(self.config) and hasattr(agent_loop_manager, "play_again"):
            self._replacing = Replacing(self, agent_loop_manager)
            self._replacing.install()
        super().fit(agent_loop_manager)
        if self._replacing is not None:
            self._replacing.log_rest()

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Run a step as verl does; the metrics tell what was replaced since the end of the last."""
        batch = super().step(metrics, timing_raw)
        if self._replacing is not None:
            metrics.update(self._replacing.read())
        return batch

    def _replace_the_dead(self, *, at_once: bool = False) -> bool:
        """Look for the dead; see `Replacing.look`."""
        return self._replacing is not None and self._replacing.look(at_once=at_once)
