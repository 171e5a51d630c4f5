"""Updates a tiny Qwen2.5-VL in verl's FSDP engines, its vision tower frozen or not.

Usage: frozen_engine.py FOLDER, with the environment of a single worker. Prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.training.losses.engine_run import nested, only_surrogate  # first: it sets the environment

# ruff: isort: split
import torch
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorStack
from torch import Tensor
from torch.distributed.fsdp import FullyShardedDataParallel
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.config import (
    FSDPCriticConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    TrainingWorkerConfig,
)
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import value_loss

from docagent_rl.errors import UserError
from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from docagent_rl.training.workers.critic import CriticWorker
from docagent_rl.training.workers.extensions import composed
from docagent_rl.training.workers.frozen import FrozenVisionWorker
from docagent_rl.training.workers.policy import PolicyWorker

IMAGES = (2, 0, 1, 1)
"""Images of each row; micro-batches hold one row, so that one has none."""
PATCHES, PATCH, TOKENS = 16, 3 * 2 * 14 * 14, 4

LORA = {"lora_rank": 4, "target_modules": "all-linear"}
VARIANTS: dict[str, dict[str, Any]] = {
    "actor": {},
    "actor, not frozen": {"frozen": False},
    "critic": {"kind": CriticWorker},
    "critic, not frozen": {"kind": CriticWorker, "frozen": False},
    "fsdp1": {"strategy": "fsdp"},
    "fsdp1 critic": {"kind": CriticWorker, "strategy": "fsdp"},
    "checkpointing": {"model": {"enable_gradient_checkpointing": True}},
    "offload": {"engine": {"param_offload": True, "optimizer_offload": True}},
    "fsdp1 lora": {"strategy": "fsdp", "model": LORA},
    "lora": {
        "model": {"lora_rank": 4, "target_modules": "all-linear", "enable_gradient_checkpointing": True}
    },
}


def batch(vocabulary: int, image: int) -> TensorDict:
    """In the layout that verl's V1 trainer hands to its workers."""
    generator = torch.Generator().manual_seed(0)
    prompts, responses, masks, positions, pictures = [], [], [], [], []
    for number, images in enumerate(IMAGES):
        prompts.append(torch.randint(20, vocabulary, (3 + number,), generator=generator))
        text = torch.randint(20, vocabulary, (6 + images,), generator=generator)
        responses.append(torch.cat([torch.full((TOKENS * images,), image), text]))
        masks.append((responses[-1] != image).long())
        length = len(prompts[-1]) + len(responses[-1])
        positions.append(torch.arange(length).expand(4, length).contiguous())
        pixels = torch.randn(PATCHES * images, PATCH, generator=generator)
        grid = torch.tensor([[1, 4, 4]] * images)
        pictures.append({"pixel_values": pixels, "image_grid_thw": grid} if images else {})
    rows = [torch.cat(pair) for pair in zip(prompts, responses, strict=True)]
    noise = [torch.randn(len(row), generator=generator) for row in responses]
    columns = {
        "input_ids": rows,
        "prompts": prompts,
        "responses": responses,
        "response_mask": masks,
        "loss_mask": masks,
        "values": [row * 0 for row in noise],
        "returns": noise,
    }
    data = TensorDict({key: nested(value) for key, value in columns.items()}, batch_size=len(rows))
    data["position_ids"] = tu.nested_tensor_from_tensor_list(positions)
    data["multi_modal_inputs"] = NonTensorStack(*pictures)
    tu.assign_non_tensor(data, temperature=1.0, pad_token_id=0)
    return data


def worker(
    path: Path,
    *,
    kind: type[TrainingWorker] = PolicyWorker,
    frozen: bool = True,
    strategy: str = "fsdp2",
    model: dict[str, Any] | None = None,
    engine: dict[str, Any] | None = None,
    rows: int = 1,
) -> TrainingWorker:
    precision = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    settings = FSDPEngineConfig(
        strategy=strategy,
        dtype="float32",
        mixed_precision=precision,
        use_torch_compile=False,
        **(engine or {}),
    )
    settings.use_dynamic_bsz = False
    settings.micro_batch_size_per_gpu = settings.infer_micro_batch_size_per_gpu = rows
    options = {
        "use_remove_padding": False,
        "override_config": {"attn_implementation": "sdpa"},
        "enable_gradient_checkpointing": False,
        **(model or {}),
    }
    config = TrainingWorkerConfig(
        model_type="value_model" if kind is CriticWorker else "language_model",
        model_config=HFModelConfig(path=str(path), **options),
        engine_config=settings,
        # weight decay would move a tensor without a gradient, were one in the optimizer with a gradient of 0
        optimizer_config=FSDPOptimizerConfig(
            lr=1e-2, weight_decay=0.1, lr_warmup_steps=0, total_training_steps=10
        ),
        checkpoint_config=CheckpointConfig(),
    )
    made = composed([kind, FrozenVisionWorker] if frozen else [kind], TrainingWorker)(config=config)
    made.reset()
    values = FSDPCriticConfig(strategy="fsdp2", ppo_micro_batch_size_per_gpu=1, rollout_n=1)
    made.set_loss_fn(partial(value_loss, config=values) if kind is CriticWorker else surrogate)
    return made


def surrogate(model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[Tensor, dict]:
    return only_surrogate(model_output, data)


def weights(made: TrainingWorker) -> dict[str, Tensor]:
    """As they are sent to the rollout server, whole; a value model's head included."""
    state = made.engine.module.state_dict()
    return {name: whole(value).detach().clone() for name, value in state.items()}


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def update(made: TrainingWorker, data: TensorDict) -> dict[str, Any]:
    """One mini-batch; how many tensors of the vision tower had a gradient, and the norm of all gradients."""
    data, seen = data.copy(), {}
    step = made.engine.optimizer_step

    def watched() -> float:
        named = list(made.engine.module.named_parameters())
        seen["gradients"] = sum(p.grad is not None and is_vision(n) for n, p in named)
        return step()

    made.engine.optimizer_step = watched
    tu.assign_non_tensor(data, mini_batch_size=len(data), global_batch_size=len(data), epochs=1)
    found = tu.get(made.train_mini_batch(data), "metrics")
    made.engine.optimizer_step = step
    norm = found["grad_norm"]
    return seen | {"norm": float(norm[0] if isinstance(norm, list) else norm)}


def is_vision(name: str) -> bool:
    return ".visual." in f".{name}"


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, float]:
    """The largest change, in the vision tower and elsewhere."""
    largest = {"vision": 0.0, "language": 0.0}
    for name, value in after.items():
        part = "vision" if is_vision(name) else "language"
        largest[part] = max(largest[part], float((value - before[name]).abs().max()))
    return largest


class LocalFSDP(FullyShardedDataParallel):
    """FSDP1 on the processor: it would broadcast the weights, from an accelerator; here is one worker."""

    def __init__(self, module: torch.nn.Module, **options: Any) -> None:
        super().__init__(module, **options | {"sync_module_states": False})


def allow_fsdp1() -> None:
    """Let verl's FSDP1 engines run on the processor."""
    transformer_impl.FSDP = LocalFSDP
    load = transformer_impl.load_fsdp_model_to_gpu
    # its device string needs a number
    transformer_impl.load_fsdp_model_to_gpu = lambda m: None if isinstance(m, LocalFSDP) else load(m)
    engines = transformer_impl.FSDPEngineWithLMHead, transformer_impl.FSDPEngineWithValueHead
    for model_type, engine in zip(("language_model", "value_model"), engines, strict=True):
        EngineRegistry.register(model_type=model_type, backend="fsdp", device="cpu")(engine)


def report(path: Path, data: TensorDict, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    made = worker(path, **settings)
    before = weights(made)
    found = update(made, data)
    named = list(made.engine.module.named_parameters())
    optimizer = made.engine.optimizer
    found["stepped"] = sorted({is_vision(n) for n, p in named if p in optimizer.state})
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    found["held"] = sorted({is_vision(n) for n, p in named if id(p) in held})
    first = weights(made)
    found["moved"] = moved(before, first)
    made.save_checkpoint(str(folder), global_step=1)
    update(made, data)
    second = weights(made)
    found["second"] = moved(first, second)
    found["sent"] = sum(is_vision(name) for name, _ in made.engine.get_per_tensor_param()[0])

    again = worker(path, **settings)
    again.load_checkpoint(str(folder))
    found["loaded"] = moved(first, weights(again))
    update(again, data)
    found["resumed"] = moved(second, weights(again))
    return found


def other_setting(path: Path, folder: Path) -> str:
    """What a frozen run says to the checkpoint of one that trained everything."""
    try:
        worker(path).load_checkpoint(str(folder))
    except UserError as error:
        return str(error)
    return "nothing"


def main(folder: Path) -> None:
    initialize_global_process_group_ray()
    allow_fsdp1()
    path = build_tiny_qwen2_5_vl(folder / "model")
    config = json.loads((path / "config.json").read_text())
    data = batch(config["text_config"]["vocab_size"] - 20, config["image_token_id"])
    found: dict[str, Any] = {name: report(path, data, folder / name, VARIANTS[name]) for name in VARIANTS}
    found["other setting"] = other_setting(path, folder / "actor, not frozen")
    print(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
