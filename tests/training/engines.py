"""verl's FSDP engines of tiny models, for the programs that `tests.training.ranks` runs."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import verl  # noqa: F401  (loads the plugin: platform, patches)
from tensordict import TensorDict
from tensordict.tensorclass import NonTensorStack
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.distributed import initialize_global_process_group_ray
from verl.utils.metric import Metric
from verl.workers.config import (
    FSDPCriticConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    TrainingWorkerConfig,
)
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import value_loss

from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.training.tensors import response_part
from docagent_rl.training.workers.critic import CriticWorker
from tests.training.workers.batches import nested

IMAGE, VOCABULARY, TOKENIZER = 5, 67, 61
ROWS = [
    (3, "sooiiiosss"),
    (4, "iiiis"),
    (2, "sss"),
    (5, "soiisooiis"),
    (2, "oiioo"),
    (6, "ssiis"),
    (3, "s"),
    (4, "oois"),
]
"""Length of the prompt; then sampled tokens, other observations and image placeholders of the
response.
"""
PACKED = 24
"""Tokens of a micro-batch: one or more rows of up to 15."""
PICTURES = (2, 0, 1, 1)
"""Images of each row of the other batch; micro-batches hold one row, so that one has none."""
PATCHES, PATCH, PICTURE_TOKENS = 16, 3 * 2 * 14 * 14, 4
FUSED = {"use_fused_kernels": True, "fused_kernel_options": {"impl_backend": "torch"}}


def program(report: Callable[[Path], dict]) -> None:
    """Make a report on each rank, in the folder that is the argument; rank 0 prints its own."""
    initialize_global_process_group_ray()
    found = report(Path(sys.argv[1]))
    if torch.distributed.get_rank() == 0:
        print(json.dumps(found))
    torch.distributed.destroy_process_group()


def once(build: Callable[[Path], object], folder: Path) -> Path:
    """Let rank 0 build something for all ranks, and return its folder."""
    if torch.distributed.get_rank() == 0:
        build(folder)
    torch.distributed.barrier()
    return folder


def text_model(folder: Path, tied: bool = False) -> None:
    torch.manual_seed(0)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
    }
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64}
    more = {"tie_word_embeddings": tied, "initializer_range": 0.3, "dtype": "float32"}
    Qwen2ForCausalLM(Qwen2Config(**sizes, **heads, **more)).save_pretrained(folder)


def text_batch() -> TensorDict:
    """Return `ROWS` in the layout in which verl's V1 trainer passes them to its workers."""
    generator = torch.Generator().manual_seed(0)
    prompts, responses = [], []
    for prompt, kinds in ROWS:
        prompts.append(torch.randint(10, TOKENIZER, (prompt,), generator=generator))
        drawn = torch.randint(10, TOKENIZER, (len(kinds),), generator=generator)
        responses.append(torch.where(torch.tensor([k == "i" for k in kinds]), IMAGE, drawn))
    masks = [torch.tensor([kind == "s" for kind in kinds]).long() for _, kinds in ROWS]
    data = _batch(prompts, responses, masks)
    data["position_ids"] = nested([torch.arange(len(row)) for row in data["input_ids"].unbind()])
    return data


def picture_model(folder: Path) -> tuple[Path, int]:
    """Write a tiny Qwen2.5-VL; return its folder and the token of its images, above which all
    tokens are special.
    """
    path = once(build_tiny_model, folder / "model")
    return path, json.loads((path / "config.json").read_text())["image_token_id"]


def picture_batch(image: int) -> TensorDict:
    generator = torch.Generator().manual_seed(0)
    prompts, responses, pictures = [], [], []
    for number, images in enumerate(PICTURES):
        prompts.append(torch.randint(20, image, (3 + number,), generator=generator))
        text = torch.randint(20, image, (6 + images,), generator=generator)
        responses.append(torch.cat([torch.full((PICTURE_TOKENS * images,), image), text]))
        pixels = torch.randn(PATCHES * images, PATCH, generator=generator)
        grid = torch.tensor([[1, 4, 4]] * images)
        pictures.append({"pixel_values": pixels, "image_grid_thw": grid} if images else {})
    data = _batch(prompts, responses, [(row != image).long() for row in responses])
    places = [
        torch.arange(len(row)).expand(4, -1).contiguous() for row in data["input_ids"].unbind()
    ]
    data["position_ids"] = tu.nested_tensor_from_tensor_list(places)
    data["multi_modal_inputs"] = NonTensorStack(*pictures)
    return data


def _batch(prompts: list[Tensor], responses: list[Tensor], masks: list[Tensor]) -> TensorDict:
    noise = [
        torch.randn(len(row), generator=torch.Generator().manual_seed(n))
        for n, row in enumerate(masks)
    ]
    columns = {
        "input_ids": [torch.cat(pair) for pair in zip(prompts, responses, strict=True)],
        "prompts": prompts,
        "responses": responses,
        "response_mask": masks,
        "loss_mask": masks,
        "values": [row * 0 for row in noise],
        "returns": noise,
    }
    data = TensorDict({key: nested(value) for key, value in columns.items()}, batch_size=len(masks))
    tu.assign_non_tensor(data, temperature=1.0, pad_token_id=0)
    return data


def with_numbers(data: TensorDict) -> TensorDict:
    """Return a batch with the columns that the trainer adds before an update."""
    generator = torch.Generator().manual_seed(3)
    for name in ("old_log_probs", "ref_log_prob", "advantages"):
        shift = 0.0 if name == "advantages" else 3.0
        rows = data["responses"].unbind()
        data[name] = nested([torch.randn(len(row), generator=generator) - shift for row in rows])
    return data


def worker(
    kind: type[TrainingWorker],
    path: Path,
    *,
    rows: int = 2,
    packed: int | None = None,
    strategy: str = "fsdp2",
    lr: float = 0.0,
    model: dict[str, Any] | None = None,
    engine: dict[str, Any] | None = None,
) -> TrainingWorker:
    """Return a worker with micro-batches of a number of rows, or of up to `packed` tokens; further
    options go to the model and the engine.
    """
    precision = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    settings = FSDPEngineConfig(
        strategy=strategy,
        dtype="float32",
        mixed_precision=precision,
        use_torch_compile=False,
        **(engine or {}),
    )
    settings.use_dynamic_bsz = packed is not None
    settings.max_token_len_per_gpu = settings.infer_max_token_len_per_gpu = packed
    settings.micro_batch_size_per_gpu = settings.infer_micro_batch_size_per_gpu = rows
    options = {
        "load_tokenizer": (path / "tokenizer.json").is_file(),
        "use_remove_padding": False,
        "override_config": {"attn_implementation": "sdpa"},
        "enable_gradient_checkpointing": False,
        **(model or {}),
    }
    critic = issubclass(kind, CriticWorker)
    config = TrainingWorkerConfig(
        model_type="value_model" if critic else "language_model",
        model_config=HFModelConfig(path=str(path), **options),
        engine_config=settings,
        # weight decay would move a tensor without a gradient, were one in the optimizer with a
        # gradient of 0
        optimizer_config=FSDPOptimizerConfig(
            lr=lr, weight_decay=0.1, lr_warmup_steps=0, total_training_steps=10
        ),
        checkpoint_config=CheckpointConfig(),
    )
    made = kind(config=config)
    made.reset()
    values = FSDPCriticConfig(strategy="fsdp2", ppo_micro_batch_size_per_gpu=1, rollout_n=1)
    made.set_loss_fn(partial(value_loss, config=values) if critic else surrogate)
    return made


def surrogate(
    model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
) -> tuple[Tensor, dict]:
    """Return any loss over all log-probs in place of PPO, so that FSDP2 sees the ordinary backward
    pass.
    """
    rows = response_part(model_output["log_probs"], data)
    return -0.01 * data["dp_size"] * torch.cat(rows).sum() / len(ROWS), {}


def outputs(made: TrainingWorker, data: TensorDict, name: str, **more: Any) -> list[Tensor]:
    """Return the outputs for each row's response; ranks that only help another return none."""
    data = data.copy()
    tu.assign_non_tensor(data, compute_loss=False, **more)
    found = made.infer_batch(data)
    return [] if found is None else [row.clone() for row in response_part(found[name], data)]


def update(
    made: TrainingWorker, data: TensorDict, rows: int | None = None, **more: Any
) -> tuple[dict[str, Tensor], dict[str, list[float]]]:
    """Return the gradients of the last mini-batch, which has a number of rows over all ranks, and
    the metrics of each mini-batch.
    """
    data, gradients = data.copy(), {}
    step = made.engine.optimizer_step

    def keep() -> float:
        for name, parameter in made.engine.module.named_parameters():
            if parameter.grad is not None:
                gradients[name.replace("_checkpoint_wrapped_module.", "")] = whole(
                    parameter.grad
                ).clone()
        return step()

    made.engine.optimizer_step = keep
    rows = rows or len(data)
    numbers = {
        "mini_batch_size": rows,
        "global_batch_size": rows,
        "epochs": 1,
        "compute_loss": True,
    }
    tu.assign_non_tensor(data, **numbers, **more, dataloader_kwargs={"shuffle": False})
    answer = made.train_mini_batch(data)
    found = {} if answer is None else tu.get(answer, "metrics")
    made.engine.optimizer_step = step
    return gradients, {name: _numbers(value) for name, value in found.items()}


def _numbers(values: Any) -> list[float]:
    values = values if isinstance(values, list) else [values]
    return [float(value.aggregate() if isinstance(value, Metric) else value) for value in values]


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def apart(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Return the largest difference of two sets of tensors, relative to a tensor's largest
    entry.
    """
    assert found.keys() == expected.keys()
    return max(
        float((found[name] - value).abs().max() / (value.abs().max() + 0.01))
        for name, value in expected.items()
    )
