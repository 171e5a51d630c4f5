"""Program: a tiny Qwen2.5-VL in verl's FSDP2 engines, whose rows share pages, against the same rows
with features of their own, which upstream computes place by place.
"""

from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorStack
from torch import distributed
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.patches.shared_vision_passes import METRICS, TOWER
from docagent_rl.rollout.patches import PatchFormat, features
from docagent_rl.training.workers.critic import CriticWorker
from docagent_rl.training.workers.extensions import FrozenVisionWorker, composed_class
from docagent_rl.training.workers.policy import PolicyWorker
from tests.training import engines
from tests.training.packed_engine import FLASH, all_to_all, rows
from tests.training.vision.pages import rows_of

LAYOUT = PatchFormat(14, 2, 2, (120.0,) * 3, (60.0,) * 3)
PAGES = ((2, 6), (), (6,), (2,))
"""Pages of the rows of `engines.picture_batch`, of four tokens each."""
OTHER_PAGES = ((10, 14), (), (18,), (22,))
LORA = {"lora_rank": 4, "target_modules": "all-linear"}
CHECKPOINTING = {"enable_gradient_checkpointing": True}
OFFLOAD = {"param_offload": True, "optimizer_offload": True}
PACKED = {"rows": 4}
VARIANTS: dict[str, dict[str, Any]] = {
    "trained": PACKED,
    "trained, fused, checkpointing": {"model": engines.FUSED | CHECKPOINTING, **PACKED},
    "frozen": {"frozen": True, **PACKED},
    "frozen, row by row": {"frozen": True, "rows": 1},
    "frozen, fused, checkpointing, offload": {
        "frozen": True,
        "model": engines.FUSED | CHECKPOINTING,
        "engine": OFFLOAD,
        **PACKED,
    },
    "lora beside the tower": {"frozen": True, "model": LORA, **PACKED},
    "lora in the tower": {"model": LORA, **PACKED},
    "critic": {"kind": CriticWorker, **PACKED},
    "frozen critic": {"kind": CriticWorker, "frozen": True, **PACKED},
    "frozen, flash": {"frozen": True, "model": FLASH, **PACKED},
}


DISTRIBUTED: dict[str, dict[str, Any]] = {
    "trained": {},
    "frozen": {"frozen": True},
    "frozen, checkpointing": {"frozen": True, "model": CHECKPOINTING},
    "reference": {"engine": {"forward_only": True}},
}


def worker(
    path: Path, kind: type[TrainingWorker] = PolicyWorker, *, frozen: bool = False, **options: Any
) -> TrainingWorker:
    kinds = [kind, FrozenVisionWorker] if frozen else [kind]
    return engines.worker(composed_class(kinds, TrainingWorker), path, **options)


def batches(image: int, pages: tuple[tuple[int, ...], ...]) -> tuple[TensorDict, TensorDict]:
    """Return a batch whose rows contain patches, and the same one with the features of upstream."""
    shared, own = (engines.with_numbers(engines.picture_batch(image)) for _ in range(2))
    made = rows_of(LAYOUT, pages)
    shared["multi_modal_inputs"] = NonTensorStack(*made)
    own["multi_modal_inputs"] = NonTensorStack(*[features(row) for row in made])
    return shared, own


def counts(made: TrainingWorker) -> list[int]:
    return list(getattr(made.engine, TOWER).counts())


def compared(made: TrainingWorker, shared: TensorDict, own: TensorDict) -> dict[str, Any]:
    """Return differences of outputs and gradients, and the images that each pass computed."""
    name = "values" if isinstance(made, CriticWorker) else "log_probs"
    expected = rows(made, own, name)
    wanted, alone = engines.update(made, own)
    found = rows(made, shared, name)
    first = counts(made)
    again = rows(made, shared, name)
    second = counts(made)
    gradients, metrics = engines.update(made, shared)
    return {
        # a rank that only helps another has no outputs
        "outputs": engines.apart(found, expected) if expected else 0.0,
        "again": all(torch.equal(again[row], found[row]) for row in found),
        "gradients": engines.apart(gradients, wanted),
        "tower": sum(".visual." in f".{name}" for name in gradients),
        "counts": [reported(alone), first, second, reported(metrics)],
    }


def reported(metrics: dict[str, list[float]]) -> list[float]:
    """Return the images that an update reports, and those that it computed, if it reports any."""
    return [metrics[name][0] for name in METRICS if name in metrics]


def changed(tower: torch.nn.Module) -> None:
    for parameter in tower.parameters():
        local = parameter.data.to_local() if hasattr(parameter.data, "to_local") else parameter.data
        local.mul_(1.5)


def after_loading(path: Path, folder: Path, image: int) -> dict[str, Any]:
    """Report on features of a frozen tower before and after a checkpoint with another tower."""
    shared, own = batches(image, PAGES)
    other = worker(path, frozen=True, **PACKED)
    changed(other.engine.module.model.visual)
    other.save_checkpoint(str(folder / "other"), global_step=1)
    made = worker(path, frozen=True, **PACKED)
    before = rows(made, shared, "log_probs")
    made.load_checkpoint(str(folder / "other"))
    found = rows(made, shared, "log_probs")
    return {
        "same": engines.apart(found, rows(made, own, "log_probs")),
        "moved": engines.apart(found, before),
    }


def on_one_rank(folder: Path) -> dict[str, Any]:
    path, image = engines.picture_model(folder)
    shared, own = batches(image, PAGES)
    found = {}
    for name, options in VARIANTS.items():
        found[name] = compared(worker(path, **options), shared, own)
    reference = worker(path, rows=4, engine={"forward_only": True})
    expected, result = rows(reference, own, "log_probs"), {}
    for name in ("first", "second"):
        result[name] = engines.apart(rows(reference, shared, "log_probs"), expected)
        result[f"{name} counts"] = counts(reference)
    return found | {"reference": result, "loading": after_loading(path, folder, image)}


def one_rank_without_features(folder: Path) -> dict[str, Any]:
    """Report on passes in which one rank knows all features and the other none, with rows in
    another order, so that micro-batches have 2, 0, 1 and 1 images here and 0, 1, 2 and 1 there.
    """
    path, image = engines.picture_model(folder)
    rank = distributed.get_rank()
    order = ([0, 1, 2, 3], [1, 3, 0, 2])[rank]
    shared, own = (
        tu.index_select_tensor_dict(data, order)
        for data in batches(image, (PAGES, OTHER_PAGES)[rank])
    )
    found = {}
    for name, options in DISTRIBUTED.items():
        made = worker(path, rows=1, **options)
        expected = rows(made, own, "log_probs")
        tower = getattr(made.engine, TOWER)
        result: dict[str, Any] = {"outputs": [], "counts": []}
        for forgetful in (None, 0, 1, None):
            if forgetful == rank:
                tower.forget()
            result["outputs"].append(engines.apart(rows(made, shared, "log_probs"), expected))
            result["counts"].append(list(tower.counts()))
        if name != "reference":
            result["gradients"] = engines.apart(
                engines.update(made, shared, 2 * len(own))[0],
                engines.update(made, own, 2 * len(own))[0],
            )
        found[name] = result
    return found


def sharing_each_row(folder: Path) -> dict[str, Any]:
    """Report on ranks that share each row's positions (Ulysses)."""
    path, image = engines.picture_model(folder)
    shared, own = batches(image, PAGES)
    found = {}
    for name, options in {"trained": {}, "frozen": {"frozen": True}}.items():
        made = worker(
            path, rows=4, model=FLASH, engine={"ulysses_sequence_parallel_size": 2}, **options
        )
        found[name] = compared(made, shared, own)
    return found


def on_two_ranks(folder: Path) -> dict[str, Any]:
    distributed.all_to_all = all_to_all
    own = one_rank_without_features(folder)
    everything: list[Any] = [None, None]
    distributed.all_gather_object(everything, own)
    return {"ranks": everything, "ulysses": sharing_each_row(folder)}


def report(folder: Path) -> dict[str, Any]:
    return on_one_rank(folder) if distributed.get_world_size() == 1 else on_two_ranks(folder)


if __name__ == "__main__":
    engines.program(report)
