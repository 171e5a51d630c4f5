"""verl's agent loop manager with workers that take image features from the loop."""

from __future__ import annotations

from typing import Any

import ray
import torch
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from docagent_rl.rollout.images import join_features
from docagent_rl.rollout.loop import validating
from docagent_rl.rollout.output import IMAGES

_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class DocAgentLoopWorker(_Worker):
    """Agent loop worker that never preprocesses an image again.

    verl decodes the finished row to text and runs every image of the conversation through the processor once
    more, on the event loop. The loop has the features already.
    """

    async def _run_agent_loop(
        self, sampling_params: dict[str, Any], trajectory: dict[str, Any], **kwargs: Any
    ) -> Any:
        # each session runs in a task of its own, so the variable does not leak into others
        validating.set(bool(trajectory["validate"]))
        return await super()._run_agent_loop(sampling_params, trajectory=trajectory, **kwargs)

    def _compute_multi_modal_inputs(self, output: Any, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        data = output.multi_modal_data or {}
        if IMAGES not in data:
            return super()._compute_multi_modal_inputs(output, input_ids)
        if self.processor is None:
            return {}
        features = join_features(data[IMAGES].images)
        grid = features.get("image_grid_thw")
        if grid is not None:
            features["images_seqlens"] = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0])
        # makes `_compute_position_ids` mark the placeholders, and is removed by it
        features["mm_token_type_ids"] = torch.zeros_like(input_ids)
        return features


class DocAgentLoopManager(AgentLoopManagerTQ):
    """Set as `actor_rollout_ref.rollout.agent.agent_loop_manager_class`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(DocAgentLoopWorker)
