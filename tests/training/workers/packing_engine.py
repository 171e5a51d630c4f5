"""Updates a tiny Qwen2.5-VL in verl's FSDP2 engine with rows packed into micro-batches and one by one.

Usage: packing_engine.py FOLDER, with the environment of a single worker. Prints a line of JSON. A critic
lives in the same process, made before the policy as verl makes it.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.training.workers.frozen_engine import batch, worker  # first: it sets the environment

# ruff: isort: split
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.config import FSDPActorConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

from docagent_rl.losses.config import KlPlace, KlScope, KlType, ObservationKl
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from docagent_rl.training.losses.batch import response_part
from docagent_rl.training.losses.visual_kl import ObservationKlLoss
from docagent_rl.training.workers.critic import CriticWorker
from tests.training.losses.engine_run import nested

TOKENS = 40
"""Of a micro-batch; rows have 13 to 17."""
FUSED = {"use_fused_kernels": True, "fused_kernel_options": {"impl_backend": "torch"}}
VARIANTS = {"rows": {}, "packed": {"packed": TOKENS}, "fused": {"packed": TOKENS, "model": FUSED}}
MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum")


def made(path: Path, packed: int | None = None, **options: Any) -> TrainingWorker:
    found = worker(path, frozen=False, **options)
    engine = found.engine_config
    engine.use_dynamic_bsz = packed is not None
    engine.max_token_len_per_gpu = engine.infer_max_token_len_per_gpu = packed
    return found


def steps_of(data: TensorDict) -> TensorDict:
    """The batch with what the trainer adds to it before an update."""
    generator = torch.Generator().manual_seed(1)
    lengths = [len(row) for row in data["responses"].unbind()]
    for name in ("old_log_probs", "ref_log_prob", "advantages"):
        shift = 0.0 if name == "advantages" else 3.0
        data[name] = nested([torch.randn(n, generator=generator) - shift for n in lengths])
    return data


def policy_loss(found: TrainingWorker, mode: str, image: int) -> ObservationKlLoss:
    """What ALDEN trains with: the surrogate, a KL on sampled tokens and one on the others."""
    actor = FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=4,
        use_dynamic_bsz=True,
        use_kl_loss=True,
        kl_loss_coef=0.05,
        loss_agg_mode=mode,
    )
    rule = ObservationRule(KlScope.ALL, KlPlace.LABEL, image)
    found.rule = rule
    config = ObservationKl(coef=0.3, type=KlType.K3)
    return ObservationKlLoss(partial(ppo_loss, config=actor), config, rule, aggregation=mode)


def gradients(found: TrainingWorker, data: TensorDict) -> dict[str, Tensor]:
    kept: dict[str, Tensor] = {}
    engine, step = found.engine, found.engine.optimizer_step

    def keep() -> float:
        for name, parameter in engine.module.named_parameters():
            if parameter.grad is not None:
                kept[name] = parameter.grad.full_tensor().clone()
        engine.optimizer_zero_grad()
        return 0.0

    engine.optimizer_step = keep
    data = data.copy()
    tu.assign_non_tensor(data, mini_batch_size=len(data), global_batch_size=len(data), epochs=1)
    found.train_mini_batch(data)
    engine.optimizer_step = step
    return kept


def inferred(found: TrainingWorker, data: TensorDict, name: str) -> list[Tensor]:
    data = data.copy()
    tu.assign_non_tensor(data, compute_loss=False, calculate_entropy=name != "values")
    output = found.infer_batch(data)
    return [row.clone() for row in response_part(output[name], data)]


def difference(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """The largest, as a share of the largest number there is."""
    assert one.keys() == other.keys()
    largest = max(float(value.abs().max()) for value in one.values())
    return max(float((one[name] - other[name]).abs().max()) for name in one) / largest


def main(folder: Path) -> None:
    initialize_global_process_group_ray()
    path = build_tiny_qwen2_5_vl(folder / "model")
    config = json.loads((path / "config.json").read_text())
    image = config["image_token_id"]
    data = steps_of(batch(image, image))
    critics = {
        name: made(path, kind=CriticWorker, packed=tokens)
        for name, tokens in (("rows", None), ("packed", TOKENS))
    }
    heads = {name: found.engine.module.state_dict() for name, found in critics.items()}
    critics["packed"].engine.module.load_state_dict(heads["rows"])  # the value head is drawn anew
    policies = {name: made(path, **options) for name, options in VARIANTS.items()}
    report: dict[str, Any] = {"gradients": {}, "inferred": {}, "micro_batches": {}}
    for mode in MODES:
        found = {}
        for name, policy in policies.items():
            policy.set_loss_fn(policy_loss(policy, mode, image))
            found[name] = gradients(policy, data)
        report["gradients"][mode] = {n: difference(found["rows"], found[n]) for n in ("packed", "fused")}
    for field in ("log_probs", "entropy"):
        rows = {n: dict(zip("abcd", inferred(p, data, field), strict=True)) for n, p in policies.items()}
        report["inferred"][field] = {n: difference(rows["rows"], rows[n]) for n in ("packed", "fused")}
    values = {n: dict(zip("abcd", inferred(c, data, "values"), strict=True)) for n, c in critics.items()}
    report["inferred"]["values"] = {"packed": difference(values["rows"], values["packed"])}
    critic = {n: gradients(c, data) for n, c in critics.items()}
    report["gradients"]["critic"] = {"packed": difference(critic["rows"], critic["packed"])}
    report["micro_batches"] = {n: micro_batches(p, data) for n, p in policies.items()}
    print(json.dumps(report))
    torch.distributed.destroy_process_group()


def micro_batches(found: TrainingWorker, data: TensorDict) -> int:
    """How many a pass over the batch has."""
    passes, forward = [], found.engine.forward_step

    def counted(*args: Any, **kwargs: Any) -> Any:
        passes.append(1)
        return forward(*args, **kwargs)

    found.engine.forward_step = counted
    inferred(found, data, "log_probs")
    found.engine.forward_step = forward
    return len(passes)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
