"""Program: train tiny models in verl's FSDP2 engine on a number of ranks, save them, and load what
other numbers of ranks have saved; their folders are beside the program's own.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.base.errors import UserError
from docagent_rl.training.workers.critic import CriticWorker
from docagent_rl.training.workers.extensions import FrozenVisionWorker, composed_class
from docagent_rl.training.workers.policy import PolicyWorker
from tests.training import engines

LORA = {"lora_rank": 4, "lora_alpha": 8, "target_modules": "all-linear"}
OFFLOAD = {"param_offload": True, "optimizer_offload": True}
FROZEN = composed_class([PolicyWorker, FrozenVisionWorker], TrainingWorker)
VARIANTS: dict[str, dict[str, Any]] = {
    "actor": {"kind": PolicyWorker},
    "critic": {"kind": CriticWorker},
    "offload": {"kind": PolicyWorker, "engine": OFFLOAD},
    "lora": {"kind": PolicyWorker, "model": LORA},
    "adapters": {"kind": PolicyWorker, "model": LORA, "adapters_only": True},
    "frozen": {"kind": FROZEN, "pictures": True},
}
"""Workers by name. `adapters` saves only adapters; `frozen` has images and a frozen tower."""
TEXT_ROWS = 6
"""A multiple of all numbers of ranks."""
MEETING = "ranks_"
Tensors = dict[str, Tensor]


def state(made: TrainingWorker) -> tuple[Tensors, dict[str, Any]]:
    """Return all tensors that a checkpoint keeps, whole, and the plain values beside them."""
    engine = made.engine
    tensors = {name: _whole(value) for name, value in engine.module.state_dict().items()}
    names = {parameter: name for name, parameter in engine.module.named_parameters()}
    for parameter, entries in engine.optimizer.state.items():
        for kind, value in entries.items():
            tensors[f"{kind} of {names[parameter]}"] = _whole(value)
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in engine.optimizer.param_groups
    ]
    return tensors, {"groups": groups, "scheduler": engine.lr_scheduler.state_dict()}


def _whole(value: Tensor) -> Tensor:
    return engines.whole(value.detach()).clone()


def options_of(name: str) -> dict[str, Any]:
    return {k: v for k, v in VARIANTS[name].items() if k not in ("pictures", "adapters_only")}


def worker(path: Path, name: str) -> TrainingWorker:
    made = engines.worker(path=path, rows=1, lr=1e-2, **options_of(name))
    if VARIANTS[name].get("adapters_only"):
        made.engine.checkpoint_manager.checkpoint_config = {"save_lora_only": True}
    return made


def step(made: TrainingWorker, data: TensorDict) -> dict[str, float]:
    """Train on the whole batch, of which each rank has its part."""
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    own = tu.index_select_tensor_dict(data, list(range(rank, len(data), ranks)))
    _, metrics = engines.update(made, own, rows=len(data))
    return {name: metrics[name][0] for name in ("loss", "grad_norm", "lr")}


def saved(make: Callable[[], TrainingWorker], data: TensorDict, folder: Path) -> None:
    """Train two steps, save, and keep for comparison what was saved and one step more."""
    made = make()
    for _ in range(2):
        step(made, data)
    made.save_checkpoint(str(folder), global_step=2)
    before, plain = state(made)
    metrics = step(made, data)
    after, _ = state(made)
    if torch.distributed.get_rank() == 0:
        kept = {"before": before, "plain": plain, "metrics": metrics, "after": after}
        torch.save(kept, folder / "kept.pt")
    torch.distributed.barrier()


def resumed(make: Callable[[], TrainingWorker], data: TensorDict, folder: Path) -> dict[str, Any]:
    """Load what other ranks have saved, train a step, and compare both with theirs."""
    made = make()
    torch.manual_seed(0)
    made.load_checkpoint(str(folder))
    kept = torch.load(folder / "kept.pt")
    loaded, plain = state(made)
    seed = torch.initial_seed()
    metrics = step(made, data)
    after, _ = state(made)
    return {
        "tensors": len(loaded),
        "moments": sum(name.startswith("exp_avg") for name in loaded),
        "differing": sorted(
            name
            for name in loaded.keys() | kept["before"].keys()
            if not torch.equal(loaded[name], kept["before"][name])
        ),
        "plain": plain == kept["plain"],
        "seeded": seed != 0,
        "metrics": [metrics, kept["metrics"]],
        "moved": engines.apart(after, loaded),
        "apart": engines.apart(after, kept["after"]),
    }


def problem(made: TrainingWorker, folder: Path) -> str:
    """Return the error with which an engine refuses a checkpoint."""
    try:
        made.load_checkpoint(str(folder))
    except (UserError, FileNotFoundError) as error:
        return str(error)
    return ""


def by_upstream(made: TrainingWorker, folder: Path) -> str:
    """Return the error with which verl alone refuses a checkpoint."""
    ours = FSDPCheckpointManager.load_checkpoint
    FSDPCheckpointManager.load_checkpoint = ours.__wrapped__
    try:
        return problem(made, folder)
    finally:
        FSDPCheckpointManager.load_checkpoint = ours


def refusals(path: Path, folder: Path) -> dict[str, Any]:
    """Return how verl alone refuses a policy of other ranks, and how this package refuses it for
    another model and for shards with copies.
    """
    copies = {"fsdp_size": 1}
    return {
        "upstream": by_upstream(worker(path, "actor"), folder),
        "refused": {
            "lora": problem(worker(path, "lora"), folder),
            "hsdp": problem(engines.worker(PolicyWorker, path, engine=copies), folder),
        },
    }


def report(folder: Path) -> dict[str, Any]:
    """Load what other numbers of ranks have saved; then train and save for those that follow."""
    ranks = torch.distributed.get_world_size()
    others = [
        path
        for path in sorted(folder.parent.glob(f"{MEETING}*"))
        if not path.name.startswith(f"{MEETING}{ranks}")
    ]
    text = engines.once(engines.text_model, folder / "text")
    pictures, image = engines.picture_model(folder)
    batches = {
        False: tu.index_select_tensor_dict(
            engines.with_numbers(engines.text_batch()), list(range(TEXT_ROWS))
        ),
        True: engines.with_numbers(engines.picture_batch(image)),
    }
    found: dict[str, Any] = {}
    for name, options in VARIANTS.items():
        with_pictures = options.get("pictures", False)
        data = batches[with_pictures]
        if len(data) % ranks:
            continue
        make = partial(worker, pictures if with_pictures else text, name)
        for other in others:
            if (other / name / "kept.pt").is_file():
                found[f"{name} from {other.name}"] = resumed(make, data, other / name)
                if name == "actor":
                    found[f"{name} from {other.name}"] |= refusals(text, other / name)
        saved(make, data, folder / name)
    return found


if __name__ == "__main__":
    engines.program(report)
