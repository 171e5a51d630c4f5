"""Make verl's own workers over FSDP2 with one rank, and read their results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import verl  # noqa: F401  (loads the plugin: platform, patches)
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.metric import Metric
from verl.workers.config import (
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    TrainingWorkerConfig,
)
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.training.tensors import response_part

POLICY = "language_model"
VALUE = "value_model"


@dataclass(frozen=True)
class Settings:
    """The settings of a worker.

    Attributes:
        bf16: cast parameters to bfloat16 for the passes; otherwise everything is float32.
        remove_padding: pack rows, as recipes do.
        checkpointing: recompute activations in the backward pass.
        fused: the backend of fused log-probs, `triton` or `torch`; None computes whole logits.
        attention: the attention of the language model and the vision tower.
        tokens: the number of tokens of a dynamic micro-batch; None takes `rows` rows at a time.
        rows: the number of rows of a micro-batch that is not dynamic.
        forward_only: make a reference; under FSDP2 its weights are offloaded.
        lr: the learning rate.
        offload_optimizer: keep the optimizer's states in host memory.
    """

    bf16: bool = False
    remove_padding: bool = False
    checkpointing: bool = False
    fused: str | None = None
    attention: str = "sdpa"
    tokens: int | None = None
    rows: int = 1
    forward_only: bool = False
    lr: float = 1e-3
    offload_optimizer: bool = False


def make_worker(
    path: Path,
    settings: Settings,
    kind: str = POLICY,
    worker: type[TrainingWorker] = TrainingWorker,
) -> TrainingWorker:
    """Return a verl worker with the model of a folder.

    Its loss is `surrogate`, or for critics `squared_error`.
    """
    number = "bf16" if settings.bf16 else "fp32"
    engine = FSDPEngineConfig(
        strategy="fsdp2",
        dtype="bfloat16" if settings.bf16 else "float32",
        model_dtype="fp32",
        mixed_precision={"param_dtype": number, "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
        use_torch_compile=False,
        forward_only=settings.forward_only,
        optimizer_offload=settings.offload_optimizer,
    )
    engine.use_dynamic_bsz = settings.tokens is not None
    if settings.tokens is None:
        engine.micro_batch_size_per_gpu = engine.infer_micro_batch_size_per_gpu = settings.rows
    else:
        engine.max_token_len_per_gpu = engine.infer_max_token_len_per_gpu = settings.tokens
    model = HFModelConfig(
        path=str(path),
        use_remove_padding=settings.remove_padding,
        enable_gradient_checkpointing=settings.checkpointing,
        use_fused_kernels=settings.fused is not None,
        fused_kernel_options={"impl_backend": settings.fused or "torch"},
        override_config={"attn_implementation": settings.attention},
    )
    config = TrainingWorkerConfig(
        model_type=kind,
        model_config=model,
        engine_config=engine,
        optimizer_config=FSDPOptimizerConfig(
            lr=settings.lr, lr_warmup_steps=0, total_training_steps=10
        ),
        checkpoint_config=CheckpointConfig(),
    )
    torch.manual_seed(0)  # a critic's head is initialised at random
    made = worker(config=config)
    made.reset()
    made.set_loss_fn(surrogate if kind == POLICY else squared_error)
    return made


def surrogate(model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[Tensor, dict]:
    """Return a loss: the sum of sampled tokens' log-probs with random weights.

    It does not depend on how a batch is divided.
    """
    return _weighted(model_output["log_probs"], data, lambda found, noise: -noise * found)


def squared_error(model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[Tensor, dict]:
    """Return a loss: the sum of squared differences between values and random targets."""
    return _weighted(model_output["values"], data, lambda found, noise: (found - noise).square())


def _weighted(output: Tensor, data: TensorDict, term: Any) -> tuple[Tensor, dict]:
    columns = [response_part(output, data), data["noise"].unbind(), data["response_mask"].unbind()]
    terms = [
        (term(found.float(), noise.to(found.device)) * mask.to(found.device)).sum()
        for found, noise, mask in zip(*columns, strict=True)
    ]
    return data["dp_size"] * torch.stack(terms).sum() / 100, {}


def infer(made: TrainingWorker, data: TensorDict) -> Tensor:
    """Return log-probs or values of all sampled tokens in sequence, in float32 on the CPU."""
    rows = zip(response_outputs(made, data), data["response_mask"].unbind(), strict=True)
    return torch.cat([row[mask.bool().cpu()] for row, mask in rows])


def response_outputs(made: TrainingWorker, data: TensorDict) -> list[Tensor]:
    """Return log-probs or values of each row's response, in float32 on the CPU."""
    data = data.copy()
    tu.assign_non_tensor(data, compute_loss=False)
    found = made.infer_batch(data)
    output = found["log_probs"] if "log_probs" in found.keys() else found["values"]  # noqa: SIM118
    return [row.float().cpu() for row in response_part(output, data)]


def update(made: TrainingWorker, data: TensorDict) -> tuple[float, float, dict[str, Tensor]]:
    """Take one step; return its loss, the gradient's norm, and gradients by parameter on CPU."""
    data = data.copy()
    seen = {}
    step = made.engine.optimizer_step
    made.engine.optimizer_step = partial(_watched, made, step, seen)
    tu.assign_non_tensor(data, mini_batch_size=len(data), global_batch_size=len(data), epochs=1)
    try:
        found = tu.get(made.train_mini_batch(data), "metrics")
    finally:
        made.engine.optimizer_step = step
    return _number(found["loss"]), _number(found["grad_norm"]), seen


def optimizer_states(made: TrainingWorker) -> dict[str, Tensor]:
    """Return the optimizer's tensors for each parameter, on the CPU."""
    states = enumerate(made.engine.optimizer.state.values())
    return {
        f"{number}.{name}": _whole(each) for number, state in states for name, each in state.items()
    }


def train_without_step(made: TrainingWorker, data: TensorDict) -> None:
    """Run the forward and backward pass over a batch without an optimizer step.

    Gradients are dropped, and the optimizer creates no states.
    """
    data = data.copy()
    engine = made.engine
    step = engine.optimizer_step
    engine.optimizer_step = partial(_no_step, made)
    tu.assign_non_tensor(data, mini_batch_size=len(data), global_batch_size=len(data), epochs=1)
    try:
        made.train_mini_batch(data)
    finally:
        engine.optimizer_step = step


def _no_step(made: TrainingWorker) -> float:
    made.engine.optimizer_zero_grad()
    return 0.0


def _watched(made: TrainingWorker, step: Any, seen: dict[str, Tensor]) -> Any:
    named = made.engine.module.named_parameters()
    seen |= {_plain_name(name): _whole(p.grad) for name, p in named if p.grad is not None}
    return step()


def _plain_name(name: str) -> str:
    """Return the name without the wrapper of checkpointing."""
    return name.replace("_checkpoint_wrapped_module.", "")


def _whole(tensor: Tensor) -> Tensor:
    whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole.detach().float().cpu().clone()  # copied, since the step clips in place


def _number(value: Any) -> float:
    value = value[0] if isinstance(value, list) else value
    return float(value.aggregate() if isinstance(value, Metric) else value)
