"""An image passes through a vision tower once for all rows of a micro-batch that show it, and once
in all if the tower is frozen.

Upstream: verl 0.9.1, `verl/workers/engine/fsdp/transformer_impl.py`. `prepare_model_inputs` joins
the images of all rows, so that trajectories of a group which see the same page each have it
computed, in the old log-probs, in the reference's, and in the update again. verl has no registry
for inputs or towers.

Here the engine announces the images of a micro-batch to its tower (`training.vision.tower`), and
passes the model empty features. This applies to rows of this package, whose images are patches;
those of other agent loops, and of models whose images are whole, are computed as upstream does.

FSDP1 on several ranks gathers a layer's weights in each pass. Its frozen tower is therefore treated
like a trained one, since each rank would make another number of passes.

No longer needed once verl computes equal images once.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from docagent_rl.training.patching import TRAINING, Patch, replace

TOWER = "docagent_tower"
"""The attribute of an engine with its `SharedTower`; an engine without such a tower has none."""
NAME = "visual"
"""The name of the towers of Qwen's and GLM's models, which take patches of several images."""

METRICS = ("vision_images", "vision_computed")
"""Metrics of an update: the images in rows, and those that passed through the tower."""


def _share(engine: Any, model: torch.nn.Module) -> None:
    """Let the tower of an engine's model, which is not sharded yet, compute images once."""
    from docagent_rl.training.settings.models import vision_modules
    from docagent_rl.training.vision.features import process_features
    from docagent_rl.training.vision.tower import SharedTower

    _forget(engine)
    towers = [part for name, part in vision_modules(model) if name.rpartition(".")[2] == NAME]
    if len(towers) != 1:
        return
    config = engine.engine_config
    tower = towers[0]
    frozen = config.forward_only or not any(part.requires_grad for part in tower.parameters())
    sharded = config.strategy == "fsdp2"
    ranks = torch.distributed.get_world_size()
    shared = SharedTower(
        tower,
        process_features(),
        keeps=frozen and (sharded or ranks == 1),
        ranks=ranks,
        reshards=sharded and config.reshard_after_forward,
    )
    setattr(engine, TOWER, shared)


def _forget(engine: Any) -> None:
    tower = getattr(engine, TOWER, None)
    if tower is not None:
        tower.forget()


def _prepared(engine: Any, micro_batch: Any) -> Any:
    """Return the micro-batch without its patches, which are announced to the engine's tower."""
    from tensordict.tensorclass import NonTensorData, NonTensorStack
    from verl.utils.device import get_device_id

    from docagent_rl.training.vision.row_images import read_images, without_patches

    tower = getattr(engine, TOWER, None)
    if tower is None:
        return micro_batch
    stored = micro_batch.get("multi_modal_inputs", [])
    rows = [(each.data if isinstance(each, NonTensorData) else each) or {} for each in stored]
    images = read_images(rows)
    tower.expect(images)
    if images is None:
        return micro_batch
    device = get_device_id()
    stack: Any = NonTensorStack  # its base class is abstract to type checkers
    bare = micro_batch.copy()
    bare["multi_modal_inputs"] = stack(*[without_patches(row, device) for row in rows])
    return bare


def _with_counts(engine: Any, data: Any, output: dict[str, Any]) -> dict[str, Any]:
    """Return the output of an update with its metrics of images, which are means over ranks.

    Updates of SFT get none: its trainer does not reduce metrics, but writes them as they are.
    """
    from verl.utils.metric import Metric

    tower = getattr(engine, TOWER, None)
    if tower is None or "response_mask" not in data:
        return output
    counts = zip(METRICS, tower.counts(), strict=True)
    metrics = {name: Metric("mean", count) for name, count in counts}
    return {**output, "metrics": {**output["metrics"], **metrics}}


def _apply(module: ModuleType) -> None:
    engine = module.FSDPEngine
    build = engine._build_fsdp_module
    load = engine.load_checkpoint
    run = engine.forward_backward_batch
    prepare = module.FSDPEngineWithLMHead.prepare_model_inputs

    def _build_fsdp_module(self: Any, model: torch.nn.Module) -> torch.nn.Module:
        """Shard the model as upstream does."""
        _share(self, model)
        return build(self, model)

    def load_checkpoint(self: Any, *args: Any, **options: Any) -> None:
        """Load as upstream does, and drop features of the weights before."""
        _forget(self)
        load(self, *args, **options)

    def forward_backward_batch(
        self: Any, data: Any, loss_function: Any, forward_only: bool = False
    ) -> dict[str, Any]:
        """Compute as upstream does; an update by RL also reports the images since the last one."""
        found = run(self, data, loss_function, forward_only)
        return found if forward_only else _with_counts(self, data, found)

    def prepare_model_inputs(self: Any, micro_batch: Any) -> Any:
        """Prepare as upstream does, with images announced to the tower."""
        return prepare(self, _prepared(self, micro_batch))

    replace(engine, "_build_fsdp_module", _build_fsdp_module)
    replace(engine, "load_checkpoint", load_checkpoint)
    replace(engine, "forward_backward_batch", forward_backward_batch)
    replace(module.FSDPEngineWithLMHead, "prepare_model_inputs", prepare_model_inputs)


PATCH = Patch(
    name="shared_vision_passes",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/engine/fsdp/transformer_impl.py::FSDPEngineWithLMHead"
    ".prepare_model_inputs",
    reason="a page that several rows show passes through the vision tower for each of them, in "
    "every pass",
    target_module="verl.workers.engine.fsdp.transformer_impl",
    apply=_apply,
    processes=TRAINING,
)
