"""verl's agent worker, which takes image features from the agent loop."""

import asyncio
import gc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from copy import deepcopy
from functools import cached_property, partial
from typing import Any, cast

import torch
from ray.actor import ActorHandle
from tensordict import TensorDict
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

from docagent_rl.base.user_code import import_named_modules
from docagent_rl.rollout.images import EncodedImage, any_whole, join_features, join_patches
from docagent_rl.rollout.patches import GRIDS
from docagent_rl.training.agent_loop.loop import own_resources, validating
from docagent_rl.training.agent_loop.output import IMAGES, DocAgentLoopOutput
from docagent_rl.training.agent_loop.playing import Playing, replays
from docagent_rl.training.agent_loop.resources import (
    WorkerResources,
    trajectory_bytes,
    worker_resources,
)
from docagent_rl.training.compact_positions import compact
from docagent_rl.training.serving.image_cache import RayImageCache, name_images
from docagent_rl.training.serving.replacing import replaces_parts
from docagent_rl.training.serving.trajectory_client import remember_servers

POSITIONS = "docagent_positions"
"""Key for a row's compact position ids, next to its multi-modal inputs."""
FEATURES = "docagent_features"
"""Key for the features of a row's whole images, which are computed before verl needs them."""
_scoring: ContextVar[bool] = ContextVar("docagent_scoring", default=False)
"""True while verl prepares rows for its reward workers, which take whole position ids."""
REPLAYS = "docagent_replays"
"""Key for the number of times that the rollout of prompts has been played again."""
# the class that ray.remote has wrapped; Ray's annotations omit the attribute
_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class  # ty: ignore[missing-attribute]


class DocAgentLoopWorker(_Worker):
    """An agent loop worker that never preprocesses an image a second time.

    verl decodes the finished row to text and runs every image of the conversation through the
    processor again, on the event loop. The agent loop already has the patches; the training engines
    turn them into features (`patches/byte_patches.py`).
    """

    _resources: WorkerResources | None = None
    _image_cache: RayImageCache | None = None
    _directory: str | None = None
    _replays = 0

    async def set_up(
        self, workers: int, on_node: int, capacity: int, directory: ActorHandle | None
    ) -> None:
        """Set up the worker's resources, which it shares with the run's other workers.

        The run has `workers` workers, `on_node` of them on this node. `capacity` is the size of the
        run's image cache in bytes, `directory` its actor; with `None`, servers receive pixels.
        """
        # here, where an error ends the run: later it would be that of a single trajectory
        import_named_modules()
        self._image_cache = image_cache = None if directory is None else RayImageCache(directory)
        self._resources = worker_resources(
            self.config,
            workers=workers,
            on_node=on_node,
            capacity=capacity,
            image_cache=image_cache,
        )
        self._resources.awaits_servers = replaces_parts(self.config)
        self._resources.gauges.watch_loop()
        remember_servers(self.llm_client)
        # A full collection of garbage stops the event loop, and with it all trajectories, for as
        # long as it walks through 600,000 objects of libraries that live as long as the worker.
        gc.collect()
        gc.freeze()

    async def name_images(self, directory: str) -> None:
        """Refer to images in later training rows by their names in the actor `directory`."""
        self._directory = directory

    async def gauges(self) -> dict[str, float]:
        """Return the worker's load since the last call."""
        if self._resources is None:
            return {}
        self._resources.look()
        return self._resources.gauges.read()

    async def generate_sequences(self, batch: TensorDict) -> None:
        """Start the trajectories of prompts as verl does; they may be those of a rollout that is
        played again.
        """
        async with self._starting:
            self._replays = cast("int", batch[REPLAYS]) if REPLAYS in batch else 0
            batch.pop(REPLAYS, None)
            await super().generate_sequences(batch)

    async def abandon(self) -> None:
        """End all trajectories without a trace but the rows of those that had ended before."""
        async with self._starting:
            await self._playing.abandon(self.background_tasks)

    async def forget_images(self) -> None:
        """Forget all images: another worker that had put some of them into the store has died."""
        if self._resources is not None and self._resources.encoder is not None:
            await self._resources.encoder.forget()

    async def _run_agent_loop(
        self, sampling_params: dict[str, Any], trajectory: dict[str, Any], **kwargs: Any
    ) -> Any:
        # each trajectory runs in its own task, so these context variables do not affect others
        validating.set(bool(trajectory["validate"]))
        own_resources.set(self._resources)
        replays.set(self._replays)
        async with self._playing.trajectory():
            if self._resources is None or self._resources.admission is None:
                return await super()._run_agent_loop(
                    sampling_params, trajectory=trajectory, **kwargs
                )
            self._resources.look()
            async with self._resources.admission.trajectory():
                return await super()._run_agent_loop(
                    sampling_params, trajectory=trajectory, **kwargs
                )

    async def _agent_loop_postprocess(self, output: Any, validate: Any, **kwargs: Any) -> None:
        self._playing.keep()
        own = self._resources
        if own is not None and own.admission is not None and isinstance(output, list):
            rows = [row for row in output if IMAGES in (row.multi_modal_data or {})]
            own.admission.weigh(trajectory_bytes(rows))
        rows = output if isinstance(output, list) else [output]
        if not validate:
            for row in rows:
                if any_whole(_images(row)):
                    make = partial(join_features, _images(row), self._thread_processor)
                    made = await asyncio.get_running_loop().run_in_executor(self._thread, make)
                    row.multi_modal_data[FEATURES] = made
        if self._image_cache is not None and self._directory is not None and not validate:
            images = [image for row in rows for image in _images(row)]
            await self._image_cache.hold(f"{kwargs['uid']}_{kwargs['session_id']}", images)
        # the event loop, on which all trajectories of the worker wait, converts nothing
        finish = partial(copy_context().run, self._finish, rows)
        await asyncio.get_running_loop().run_in_executor(self._finishing, finish)
        await super()._agent_loop_postprocess(output, validate, **kwargs)

    def _finish(self, rows: Sequence[Any]) -> None:
        """Compute what verl's `_agent_loop_postprocess` then only takes from the rows."""
        for row in rows:
            if isinstance(row, DocAgentLoopOutput):
                ids = torch.tensor(row.prompt_ids + row.response_ids)
                inputs = self._inputs_of(row, ids)
                one = torch.ones_like(ids)[None]
                positions = super()._compute_position_ids(ids[None], one, inputs)
                row.finish({**inputs, POSITIONS: compact(positions[0])[None]})

    async def _compute_score(self, outputs: list[Any], kwargs: dict[str, Any]) -> None:
        token = _scoring.set(True)
        try:
            await super()._compute_score(outputs, kwargs=kwargs)
        finally:
            _scoring.reset(token)

    def _compute_multi_modal_inputs(self, output: Any, input_ids: torch.Tensor) -> dict[str, Any]:
        if isinstance(output, DocAgentLoopOutput) and output.inputs is not None:
            return dict(output.inputs)
        return self._inputs_of(output, input_ids)

    def _inputs_of(self, output: Any, input_ids: torch.Tensor) -> dict[str, Any]:
        data = output.multi_modal_data or {}
        if IMAGES not in data:
            return super()._compute_multi_modal_inputs(output, input_ids)
        if self.processor is None:
            return {}
        images = _images(output)
        named = self._directory is not None and all(image.handle is not None for image in images)
        if any_whole(images):
            row = data.pop(FEATURES, {})
        elif self._directory is None or not named or validating.get():
            row = join_patches(images)
        else:
            row = name_images(images, self._directory)
        grid = row.get(GRIDS)
        if grid is not None:
            row["images_seqlens"] = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0])
        if hasattr(self.processor, "get_rope_index"):
            # makes `_compute_position_ids` mark the placeholders; that method removes it again
            row["mm_token_type_ids"] = torch.zeros_like(input_ids)
        return row

    @cached_property
    def _playing(self) -> Playing:
        return Playing()

    @cached_property
    def _starting(self) -> asyncio.Lock:
        """Held while trajectories are started, so that none is started while all are ended."""
        return asyncio.Lock()

    @cached_property
    def _finishing(self) -> ThreadPoolExecutor:
        # one row after the other, since threads that compute in Python hold the loop up, too
        return ThreadPoolExecutor(1, thread_name_prefix="docagent-finishing")

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        # a single thread with its own processor, as a tokenizer is not thread-safe
        return ThreadPoolExecutor(1, thread_name_prefix="docagent-features")

    @cached_property
    def _thread_processor(self) -> Any:
        return deepcopy(self.processor)

    def _compute_position_ids(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        multi_modal_inputs: dict[str, torch.Tensor],
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Compute position ids as verl does, and return a stream (1, n) of them for the queue; then
        drop a validation row's images, which are unused.
        """
        positions = multi_modal_inputs.pop(POSITIONS, None)
        if positions is None:
            positions = super()._compute_position_ids(
                input_ids, attention_mask, multi_modal_inputs, *args, **kwargs
            )
            if not _scoring.get():
                positions = compact(positions[0])[None]
        if validating.get():
            multi_modal_inputs.clear()
        return positions


def _images(row: Any) -> Sequence[EncodedImage]:
    data = row.multi_modal_data or {}
    return data[IMAGES].images if IMAGES in data else ()
