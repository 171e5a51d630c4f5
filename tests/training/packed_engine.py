"""Program: a tiny Qwen2.5-VL in verl's FSDP2 engines, with rows that share micro-batches and rows
one by one.

On two ranks: rows whose positions the ranks share (Ulysses) against rows that each has.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, distributed
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss

from docagent_rl.losses.config import KlPlace, KlScope, KlType, ObservationKl
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.training.compact_positions import compact
from docagent_rl.training.trainer.passes import TWICE
from docagent_rl.training.workers.critic import VALUE_MASK, CriticWorker
from docagent_rl.training.workers.observation_kl import ObservationKlLoss
from docagent_rl.training.workers.policy import PolicyWorker
from tests.training import engines
from tests.training.workers.batches import actor, nested

TOKENS = 40
"""Tokens of a micro-batch; rows have 13 to 17."""
FLASH = {
    "use_remove_padding": True,
    "override_config": {"attn_implementation": "flash_attention_2"},
}
MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum")
PADDED: dict[str, dict[str, Any]] = {
    "packed": {"packed": TOKENS},
    "fused": {"packed": TOKENS, "model": engines.FUSED},
}
FLAT: dict[str, dict[str, Any]] = {
    "flash, whole batch": {"rows": 4, "model": FLASH},
    "flash, checkpointing": {"rows": 4, "model": {**FLASH, "enable_gradient_checkpointing": True}},
    "flash, fused": {"rows": 4, "model": FLASH | engines.FUSED},
    "flash, determined": {"rows": 4, "model": FLASH, "engine": {"full_determinism": True}},
}


def numbers(
    made: TrainingWorker, data: TensorDict, image: int, modes: tuple[str, ...]
) -> dict[str, Any]:
    """Return a policy's log-probs and entropies, and its gradients by modes of the loss, with
    ALDEN's two KLs.
    """
    found: dict[str, Any] = {name: rows(made, data, name) for name in ("log_probs", "entropy")}
    made.rule = ObservationRule(KlScope.ALL, KlPlace.LABEL, image)
    config = ObservationKl(coef=0.3, type=KlType.K3)
    for mode in modes:
        base = partial(ppo_loss, config=actor(mode))
        made.set_loss_fn(ObservationKlLoss(base, config, made.rule, aggregation=mode))
        found[mode] = engines.update(made, data)[0]
    return found


def rows(made: TrainingWorker, data: TensorDict, name: str) -> dict[str, Tensor]:
    found = engines.outputs(made, data, name, calculate_entropy=name == "entropy")
    return {str(number): row for number, row in enumerate(found)}


def with_positions(data: TensorDict, make: Callable[[Tensor], Tensor]) -> TensorDict:
    """Return a batch with position ids that are made of those of each row."""
    rows = [make(row) for row in data["position_ids"].unbind()]
    data = data.copy()
    data["position_ids"] = tu.nested_tensor_from_tensor_list(rows)
    return data


def difference_by_compact_rows(made: TrainingWorker, data: TensorDict, name: str) -> float:
    """Return the largest difference that rows as workers fetch them make in outputs and
    gradients.
    """
    axes = torch.tensor([[1], [2], [3], [2]])
    whole = with_positions(data, lambda row: row // axes)
    trains = not made.engine_config.forward_only
    found, expected = (
        {**rows(made, each, name), **(engines.update(made, each)[0] if trains else {})}
        for each in (with_positions(whole, compact).exclude(*TWICE), whole)
    )
    return max(float((found[key] - expected[key]).abs().max()) for key in expected)


def values(made: TrainingWorker, data: TensorDict) -> dict[str, Any]:
    """Return a critic's values and gradients."""
    return {"values": rows(made, data, "values"), "critic": engines.update(made, data)[0]}


def micro_batches(made: TrainingWorker, data: TensorDict) -> int:
    """Return the number of micro-batches in a pass over the batch."""
    passes, forward = [], made.engine.forward_step
    made.engine.forward_step = lambda *args, **kwargs: passes.append(1) or forward(*args, **kwargs)
    rows(made, data, "log_probs")
    made.engine.forward_step = forward
    return len(passes)


def head(made: TrainingWorker) -> dict[str, Tensor]:
    """Return the value head's own parameters, which are random and in no checkpoint."""
    named = made.engine.module.named_parameters()
    return {name: value.to_local() for name, value in named if name.startswith("v_head.")}


def on_targets(folder: Path) -> dict[str, Any]:
    """Report on a critic of texts, with targets on all sampled tokens, on some of them, and with
    other returns on the other tokens.
    """
    made = engines.worker(CriticWorker, engines.once(engines.text_model, folder / "text"))
    data = engines.text_batch()
    values = engines.outputs(made, data, "values")
    sampled = [row.bool() for row in data["response_mask"].unbind()]
    generator = torch.Generator().manual_seed(1)
    returns = [value + torch.randn(value.shape, generator=generator) for value in values]
    targets = [torch.rand(row.shape, generator=generator).lt(0.5) & row for row in sampled]
    elsewhere = [torch.where(at, row, row + 9) for at, row in zip(targets, returns, strict=True)]
    data["values"], data["returns"] = nested(values), nested(returns)
    _, every = engines.update(made, data)
    data[VALUE_MASK] = nested([row.long() for row in targets])
    gradients, some = engines.update(made, data)
    data["returns"] = nested(elsewhere)
    others, noise = engines.update(made, data)
    error = torch.cat(values) - torch.cat(returns)
    # the old value is the present one: the clipped loss is the plain one
    expected = [
        0.5 * float(error[torch.cat(masks)].square().mean()) for masks in (sampled, targets)
    ]
    losses = [found["critic/vf_loss"][0] for found in (every, some, noise)]
    return {"losses": losses, "expected": expected, "error": engines.apart(others, gradients)}


def on_one_rank(folder: Path) -> dict[str, Any]:
    targets = on_targets(folder)
    path, image = engines.picture_model(folder)
    data = engines.with_numbers(engines.picture_batch(image))
    # before the policy, as verl makes it
    critic = engines.worker(CriticWorker, path, rows=1)
    policy = engines.worker(PolicyWorker, path, rows=1)
    plain = numbers(policy, data, image, MODES) | values(critic, data)
    found: dict[str, Any] = {
        "spread": {name: float(plain[name]["0"].std()) for name in ("log_probs", "values")}
    }
    passes = {"rows": micro_batches(policy, data)}
    compacts = {"critic": difference_by_compact_rows(critic, data, "values")}
    compacts["rows"] = difference_by_compact_rows(policy, data, "log_probs")
    # from the first of `FLAT` on verl's changes of the model's classes are in place
    for name, options in (PADDED | FLAT).items():
        made = engines.worker(PolicyWorker, path, **options)
        given = numbers(made, data, image, MODES if name in PADDED else MODES[:1])
        passes[name] = micro_batches(made, data)
        compacts[name] = difference_by_compact_rows(made, data, "log_probs")
        if name in ("packed", "flash, whole batch"):
            other = engines.worker(CriticWorker, path, **options)
            for key, parameter in head(other).items():
                parameter.data.copy_(head(critic)[key])
            given |= values(other, data)
        found[name] = {key: engines.apart(each, plain[key]) for key, each in given.items()}
    reference = engines.worker(
        PolicyWorker, path, rows=4, model=FLASH, engine={"forward_only": True}
    )
    found["reference"] = {
        "log_probs": engines.apart(rows(reference, data, "log_probs"), plain["log_probs"])
    }
    compacts["reference"] = difference_by_compact_rows(reference, data, "log_probs")
    return found | {"micro_batches": passes, "targets": targets, "compact": compacts}


def all_to_all(
    received: list[Tensor],
    sent: list[Tensor],
    group: distributed.ProcessGroup | None = None,
    **_: object,
) -> None:
    """Exchange tensors by sending everything to everyone, since gloo lacks this operation."""
    everything = [torch.empty_like(torch.stack(sent)) for _ in received]
    distributed.all_gather(everything, torch.stack(sent), group=group)
    for place, tensors in zip(received, everything, strict=True):
        place.copy_(tensors[distributed.get_rank(group)])


def on_two_ranks(folder: Path) -> dict[str, Any]:
    distributed.all_to_all = all_to_all
    path, image = engines.picture_model(folder)
    data = engines.picture_batch(image)
    padded = engines.worker(PolicyWorker, path)
    wanted, (expected, _) = (
        rows(padded, data, "log_probs"),
        engines.update(padded, data, 2 * len(data)),
    )
    shared = engines.worker(
        PolicyWorker, path, model=FLASH, engine={"ulysses_sequence_parallel_size": 2}
    )
    found, (given, _) = rows(shared, data, "log_probs"), engines.update(shared, data)
    if distributed.get_rank():
        return {}
    # the loss of each rank has its own factor: directions are compared
    own, other = (
        torch.cat([part[n].flatten().double() for n in expected]) for part in (given, expected)
    )
    scale = float(own @ other / (other @ other))
    error = float((own / scale - other).norm() / other.norm())
    return {"values": engines.apart(found, wanted), "scale": scale, "error": error}


def report(folder: Path) -> dict[str, Any]:
    return on_one_rank(folder) if distributed.get_world_size() == 1 else on_two_ranks(folder)


if __name__ == "__main__":
    engines.program(report)
