"""Program: train, send, save and compare a tiny Qwen2.5-VL with LoRA in verl's FSDP2 engine."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.training.workers.policy import PolicyWorker
from tests.training import engines

LORA = {"lora_rank": 4, "lora_alpha": 8, "target_modules": "all-linear"}
LANGUAGE = LORA | {"exclude_modules": ".*visual.*"}
MERGE = {"lora": {"merge": True}}
BFLOAT16 = {"model_dtype": "bfloat16"}
VARIANTS: dict[str, dict[str, Any]] = {
    "all": {"model": LORA | MERGE},
    "language": {
        "model": LANGUAGE | MERGE,
        "engine": {"param_offload": True, "optimizer_offload": True},
    },
    "half": {"model": LANGUAGE | MERGE, "engine": BFLOAT16},
    "adapter": {"model": LANGUAGE},
}
RESUMED = ("language", "adapter")
"""Workers that are saved and loaded: merged and offloaded, and with a separate adapter."""
Sent = dict[str, torch.Tensor]


def sent(made: TrainingWorker, **options: Any) -> Sent:
    weights, _ = made.engine.get_per_tensor_param(**options)
    return {name: value.clone() for name, value in weights}


def upstream(made: TrainingWorker) -> Sent:
    """Return what verl sends without the patch."""
    ours = FSDPEngine._merged_lora_per_tensor_param
    FSDPEngine._merged_lora_per_tensor_param = ours.__wrapped__
    try:
        return sent(made)
    finally:
        FSDPEngine._merged_lora_per_tensor_param = ours


def put(plain: TrainingWorker, weights: Sent) -> None:
    state = plain.engine.module.state_dict()
    assert set(weights) == set(state)
    with torch.no_grad():
        for name, target in state.items():
            value = weights[name].float()
            if hasattr(target, "device_mesh"):
                value = torch.distributed.tensor.distribute_tensor(
                    value, target.device_mesh, target.placements
                )
            target.copy_(value)


def trained_by(made: TrainingWorker) -> Sent:
    return {n: p for n, p in made.engine.module.named_parameters() if p.requires_grad}


def apart(one: list[torch.Tensor], two: list[torch.Tensor]) -> float:
    return float((torch.cat(one) - torch.cat(two)).abs().max())


def variant(
    make: Any, plain: TrainingWorker, data: Any, reference: Any, folder: Path
) -> dict[str, Any]:
    said = partial(engines.outputs, data=data, name="log_probs")
    made = make()
    first = said(made)
    trained = trained_by(made)
    engines.update(made, data)
    after = said(made)
    found: dict[str, Any] = {
        "trained": [len(trained), sum("visual" in name for name in trained)],
        "types": _types(trained),
        "before": apart(first, reference),
        "moved": apart(after, first),
        "without": apart(said(made, no_lora_adapter=True), first),
    }
    if made.model_config.lora.get("merge"):
        merged = {"merged": sent(made)} | (
            {} if folder.name == "half" else {"upstream": upstream(made)}
        )
        for name, weights in merged.items():
            put(plain, weights)
            found[name] = {"apart": apart(said(plain), after), "types": _types(weights)}
    else:
        adapter, below = sent(made, base_sync_done=True), sent(made, base_sync_done=False)
        found["sent"] = [len(adapter), sum("visual" in name for name in adapter)]
        put(plain, {name.replace(".base_layer", ""): value for name, value in below.items()})
        found["base"] = apart(said(plain), reference)
    return found | (resumed(make, made, after, data, folder) if folder.name in RESUMED else {})


def resumed(
    make: Any, made: TrainingWorker, after: Any, data: Any, folder: Path
) -> dict[str, float]:
    said = partial(engines.outputs, data=data, name="log_probs")
    made.save_checkpoint(str(folder), global_step=1)
    engines.update(made, data)
    again = make()
    again.load_checkpoint(str(folder))
    loaded = apart(said(again), after)
    engines.update(again, data)
    return {"loaded": loaded, "resumed": apart(said(again), said(made))}


def _types(weights: Sent) -> list[str]:
    return sorted({str(value.dtype) for value in weights.values()})


def report(folder: Path) -> dict[str, Any]:
    path, image = engines.picture_model(folder)
    data = engines.with_numbers(engines.picture_batch(image))
    make = partial(engines.worker, PolicyWorker, path, rows=1, lr=1e-2)
    plain = make()
    reference = engines.outputs(plain, data=data, name="log_probs")
    found: dict[str, Any] = {
        name: variant(partial(make, **options), plain, data, reference, folder / name)
        for name, options in VARIANTS.items()
    }
    FSDPEngine._build_lora_module = FSDPEngine._build_lora_module.__wrapped__
    return found | {"upstream": {"types": _types(trained_by(make(**VARIANTS["half"])))}}


if __name__ == "__main__":
    engines.program(report)
