"""verl's agent loop manager, which replaces agent workers that have died."""

import asyncio
import logging
import time
from collections.abc import Collection
from typing import Any, cast
from uuid import uuid4

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorDiedError, ActorUnavailableError
from tensordict import TensorDict
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.utils.tensordict_utils import assign_non_tensor_data

from docagent_rl.training.agent_loop.resources import image_bytes, step_gauges
from docagent_rl.training.agent_loop.starting import (
    await_start,
    start_search,
    worker_nodes,
    worker_options,
)
from docagent_rl.training.agent_loop.worker import REPLAYS, DocAgentLoopWorker
from docagent_rl.training.serving.image_cache import PageDirectory
from docagent_rl.training.serving.replacing import replaces_parts
from docagent_rl.training.serving.trajectory_client import admits
from docagent_rl.training.trainer.reporting import report_stage

logger = logging.getLogger(__name__)

ABANDON_S = 120.0
"""Seconds within which the living workers must have abandoned their trajectories, or images."""


class DocAgentLoopManager(AgentLoopManagerTQ):
    """The agent loop manager (`actor_rollout_ref.rollout.agent.agent_loop_manager_class`)."""

    _directory: Any = None  # an actor
    _names_images = False
    _prompts: TensorDict | None = None
    """The prompts of the rollout that began last."""
    _replays = 0
    _unreached_at: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(DocAgentLoopWorker)
        self._replaces = replaces_parts(self.config)

    async def _init_agent_loop_workers(self) -> None:
        """Start workers as verl does, and set up the resources that they share."""
        report_stage("agent workers and index")
        await super()._init_agent_loop_workers()
        capacity = image_bytes(self.config, ray.cluster_resources().get("object_store_memory", 0.0))
        if admits(self.rollout_config):
            self._name = f"docagent_pages_{uuid4().hex}"
            actor = ray.remote(PageDirectory).options(num_cpus=0, name=self._name)
            self._directory = actor.remote(capacity)
        nodes = len(worker_nodes())
        workers = len(self.workers)
        self._shared = (workers, -(-workers // max(1, nodes)), capacity, self._directory)
        # before the first trajectory, with which workers would start search actors of their own
        self._search, *_ = await asyncio.gather(
            asyncio.to_thread(start_search, self.config),
            *(worker.set_up.remote(*self._shared) for worker in self.workers),
        )

    @property
    def workers(self) -> list[ActorHandle]:
        """The actors that play trajectories."""
        return cast("list[ActorHandle]", self.agent_loop_workers)

    @property
    def prompts(self) -> TensorDict | None:
        """The prompts of the rollout that began last."""
        return self._prompts

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Begin the rollout of prompts as verl does, without waiting for it."""
        self._prompts = prompts
        self._replays = 0
        self._dispatch(prompts)

    def play_again(self) -> None:
        """Begin the last rollout again, from its beginning; nothing of it is playing any more."""
        prompts = cast("TensorDict", self._prompts)
        self._replays += 1
        assign_non_tensor_data(prompts, REPLAYS, self._replays)
        self._dispatch(prompts)

    def abandon(self, dead: Collection[str]) -> None:
        """Let workers that are not among the dead ones end all of their trajectories.

        Raises:
            ray.exceptions.RayError: a worker did not manage in time, or has died.
        """
        living = [worker for worker in self.workers if worker._actor_id.hex() not in dead]
        ray.get([worker.abandon.remote() for worker in living], timeout=ABANDON_S)

    def forget_images(self, dead: Collection[str]) -> None:
        """Let living workers forget all images, since those of dead workers are lost.

        Raises:
            ray.exceptions.RayError: a worker did not manage in time, or has died.
        """
        living = [worker for worker in self.workers if worker._actor_id.hex() not in dead]
        ray.get([worker.forget_images.remote() for worker in living], timeout=ABANDON_S)
        if self._directory is not None:
            ray.get(self._directory.forget.remote())

    def replace(self, dead: Collection[str]) -> None:
        """Start new workers in place of dead ones.

        Raises:
            InfrastructureError: a worker has not started in time.
            ray.exceptions.RayError: a worker could not be started.
        """
        ids = [worker._actor_id.hex() for worker in self.workers]
        new = {number: self._start(number) for number, each in enumerate(ids) if each in dead}
        asked = [worker.set_up.remote(*self._shared) for worker in new.values()]
        if self._names_images:
            asked += [worker.name_images.remote(self._name) for worker in new.values()]
        await_start(asked)
        for number, worker in new.items():
            self.workers[number] = worker

    def _start(self, number: int) -> Any:
        """Start a worker as verl does."""
        return self.agent_loop_workers_class.options(**worker_options(number)).remote(
            self.config, self.llm_client, self.teacher_client, self.reward_loop_worker_handles
        )

    def is_undelivered(self, after_s: float) -> bool:
        """Return whether a worker could not be reached when the rollout began, `after_s` ago."""
        return self._unreached_at is not None and time.monotonic() >= self._unreached_at + after_s

    def _dispatch(self, prompts: TensorDict) -> None:
        self._unreached_at = None
        try:
            super().generate_sequences(prompts)
        except (ActorDiedError, ActorUnavailableError) as error:
            if not self._replaces:
                raise
            # the trainer looks for the dead while it waits for the rollout
            self._unreached_at = time.monotonic()
            logger.warning("an agent worker could not be reached: %s", type(error).__name__)

    def name_images(self) -> None:
        """Refer to images in later training rows by name; the caller releases them.

        Without an image cache this has no effect: rows contain their images.
        """
        if self._directory is not None:
            self._names_images = True
            ray.get([worker.name_images.remote(self._name) for worker in self.workers])

    def release_images(self, trajectories: Collection[str]) -> None:
        """Release the images of trajectories (`{uid}_{trajectory}`) whose rows are not needed any
        more.
        """
        if self._directory is not None and trajectories:
            self._directory.release.remote(list(trajectories))

    def gauges(self) -> dict[str, float]:
        """Return the load of all workers since the last call: `docagent/workers/<name>`."""
        workers = ray.get([worker.gauges.remote() for worker in self.workers])
        image_cache = {} if self._directory is None else ray.get(self._directory.gauges.remote())
        return step_gauges(workers, image_cache)
