"""Program: a tiny Qwen2.5-VL in verl's FSDP engines, its vision tower frozen or not."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.distributed.fsdp import FullyShardedDataParallel
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.base.errors import UserError
from docagent_rl.training.workers.critic import CriticWorker
from docagent_rl.training.workers.extensions import FrozenVisionWorker, composed_class
from docagent_rl.training.workers.policy import PolicyWorker
from tests.training import engines

LORA = {"lora_rank": 4, "target_modules": "all-linear"}
CHECKPOINTING = {"enable_gradient_checkpointing": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "actor": {},
    "actor, not frozen": {"frozen": False},
    "critic": {"kind": CriticWorker},
    "fsdp1": {"strategy": "fsdp"},
    "fsdp1 lora": {"strategy": "fsdp", "model": LORA},
    "offload": {
        "engine": {"param_offload": True, "optimizer_offload": True},
        "model": CHECKPOINTING,
    },
    "lora": {"model": LORA | CHECKPOINTING},
}


def worker(
    path: Path, kind: type[TrainingWorker] = PolicyWorker, *, frozen: bool = True, **options: Any
) -> TrainingWorker:
    kinds = [kind, FrozenVisionWorker] if frozen else [kind]
    return engines.worker(composed_class(kinds, TrainingWorker), path, rows=1, lr=1e-2, **options)


def weights(made: TrainingWorker) -> dict[str, Tensor]:
    """Return the whole weights as they are sent to the rollout server, including a value model's
    head.
    """
    state = made.engine.module.state_dict()
    return {name: engines.whole(value).detach().clone() for name, value in state.items()}


def is_vision(name: str) -> bool:
    return ".visual." in f".{name}"


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, float]:
    """Return the largest change, in the vision tower and elsewhere."""
    changes = {name: float((value - before[name]).abs().max()) for name, value in after.items()}
    parts = {"vision": True, "language": False}
    return {
        part: max(c for n, c in changes.items() if is_vision(n) is own)
        for part, own in parts.items()
    }


class LocalFSDP(FullyShardedDataParallel):
    """FSDP1 on the CPU. It would broadcast the weights from an accelerator; here is only one
    worker.
    """

    def __init__(self, module: torch.nn.Module, **options: Any) -> None:
        super().__init__(module, **options | {"sync_module_states": False})


def allow_fsdp1() -> None:
    """Let verl's FSDP1 engines run on the CPU."""
    transformer_impl.FSDP = LocalFSDP
    load = transformer_impl.load_fsdp_model_to_gpu
    # its device string needs a number
    transformer_impl.load_fsdp_model_to_gpu = lambda m: (
        None if isinstance(m, LocalFSDP) else load(m)
    )
    kinds = transformer_impl.FSDPEngineWithLMHead, transformer_impl.FSDPEngineWithValueHead
    for model_type, engine in zip(("language_model", "value_model"), kinds, strict=True):
        EngineRegistry.register(model_type=model_type, backend="fsdp", device="cpu")(engine)


def variant(path: Path, data: TensorDict, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    make = partial(worker, path, **settings)
    made = make()
    before = weights(made)
    gradients, metrics = engines.update(made, data)
    first = weights(made)
    named, optimizer = list(made.engine.module.named_parameters()), made.engine.optimizer
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    made.save_checkpoint(str(folder), global_step=1)
    engines.update(made, data)
    second = weights(made)
    again = make()
    again.load_checkpoint(str(folder))
    loaded = weights(again)
    engines.update(again, data)
    return {
        "norm": metrics["grad_norm"][0],
        "gradients": sum(map(is_vision, gradients)),
        "stepped": sorted({is_vision(n) for n, p in named if p in optimizer.state}),
        "held": sorted({is_vision(n) for n, p in named if id(p) in held}),
        "moved": [moved(before, first), moved(first, second)],
        "sent": sum(is_vision(name) for name, _ in made.engine.get_per_tensor_param()[0]),
        "loaded": moved(first, loaded),
        "resumed": moved(second, weights(again)),
    }


def report(folder: Path) -> dict[str, Any]:
    allow_fsdp1()
    path, image = engines.picture_model(folder)
    data = engines.picture_batch(image)
    found: dict[str, Any] = {n: variant(path, data, folder / n, VARIANTS[n]) for n in VARIANTS}
    try:
        # the checkpoint of a run that trained everything
        worker(path).load_checkpoint(str(folder / "actor, not frozen"))
    except UserError as error:
        found["other setting"] = str(error)
    return found


if __name__ == "__main__":
    engines.program(report)
