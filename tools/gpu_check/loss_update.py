"""Compare one update by a verl worker with loss and gradients in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor, distributed
from verl.utils import tensordict_utils as tu
from verl.utils.metric import Metric
from verl.workers.config import FSDPActorConfig, FSDPCriticConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss, value_loss

from docagent_rl.losses.config import BASES, Aggregation, KlPlace, KlScope, KlType, ObservationKl
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.training.workers.critic import CriticWorker
from docagent_rl.training.workers.extensions import composed_class
from docagent_rl.training.workers.observation_kl import ObservationKlLoss
from docagent_rl.training.workers.policy import PolicyWorker
from docagent_rl.training.workers.trained_tokens import TrainedTokensWorker
from docagent_rl.training.workers.trajectory_loss import TrajectoryCountWorker, TrajectoryMeanLoss
from docagent_rl.training.workers.turn_loss import TurnCountWorker, TurnMeanLoss
from tools.gpu_check import loss_reference
from tools.gpu_check.loss_batches import FIELDS, OUTPUTS, Recorder, SeenRow, SpelledRow, wholes
from tools.gpu_check.loss_reference import TRAJECTORY, TURN, Objective, ReferenceRow

POLICY_WORKER = composed_class(
    [PolicyWorker, TrajectoryCountWorker, TurnCountWorker, TrainedTokensWorker], TrainingWorker
)
"""A policy's worker with everything that can be added to it."""
SMALL_LOSS = 0.1
"""Differences between losses smaller than this are not expressed relative to them."""


@dataclass(frozen=True)
class Layout:
    """The division of a step into mini-batches and micro-batches.

    Attributes:
        mini: the number of rows of a mini-batch, over all workers.
        micro: the number of rows of a micro-batch on one worker; None for dynamic micro-batches.
        tokens: the number of tokens of a dynamic micro-batch.
    """

    mini: int = 8
    micro: int | None = 2
    tokens: int = 24

    def settings(self) -> dict[str, Any]:
        """Return verl's settings for an update."""
        return {
            "mini_batch_size": self.mini,
            # the constant that verl's trainers pass on, whatever is trained
            "global_batch_size": self.mini,
            "epochs": 1,
            "use_dynamic_bsz": self.micro is None,
            "micro_batch_size_per_gpu": self.micro,
            "max_token_len_per_gpu": self.tokens,
            "dataloader_kwargs": {"shuffle": False},
        }


def policy_settings(objective: Objective) -> FSDPActorConfig:
    """Return verl's settings for a policy's loss."""
    low, high = objective.clip
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_mini_batch_size=8,
        ppo_micro_batch_size_per_gpu=1,
        loss_agg_mode=_verls_mode(objective.mode),
        loss_scale_factor=_scale(objective),
        clip_ratio=low,
        clip_ratio_low=low,
        clip_ratio_high=high,
        clip_ratio_c=objective.dual_clip,
        entropy_coeff=objective.entropy,
        use_kl_loss=True,
        kl_loss_coef=objective.kl,
        kl_loss_type=objective.kl_type,
    )


def critic_settings(objective: Objective) -> FSDPCriticConfig:
    """Return verl's settings for a critic's loss."""
    return FSDPCriticConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        loss_agg_mode=objective.mode,
        loss_scale_factor=_scale(objective),
        cliprange_value=objective.value_clip,
    )


def _verls_mode(mode: str) -> str:
    """Return verl's mean on which a mean is based."""
    return BASES[Aggregation(mode)] if mode in (TRAJECTORY, TURN) else mode


def _scale(objective: Objective) -> int | None:
    return objective.scale if objective.mode == "seq-mean-token-sum-norm" else None


def set_policy_loss(made: Any, objective: Objective, image: int) -> Callable[..., Any]:
    """Return a policy's loss as a run composes it, and give the worker the rule that it needs."""
    base = partial(ppo_loss, config=policy_settings(objective))
    if objective.mode == TRAJECTORY:
        return TrajectoryMeanLoss(base)
    if objective.mode == TURN:
        base = TurnMeanLoss(base)
    if not objective.observation:
        return base
    scope = KlScope.IMAGE if objective.images else KlScope.ALL
    made.rule = ObservationRule(scope, KlPlace.LABEL, image)
    config = ObservationKl(
        coef=objective.observation, type=KlType(objective.observation_type), scope=scope
    )
    return ObservationKlLoss(
        base,
        config,
        made.rule,
        aggregation=_verls_mode(objective.mode),
        scale_factor=_scale(objective),
        by_turn=objective.mode == TURN,
    )


def differences(
    made: Any,
    data: TensorDict,
    rows: Sequence[SpelledRow],
    objective: Objective,
    layout: Layout,
    image: int,
) -> dict[str, float]:
    """Train on a step, and return the largest differences over its mini-batches by name.

    Every rank calls this with the whole step, and trains on its own part, which is the one that
    verl's dispatch would give it.

    Args:
        made: a worker, `POLICY_WORKER` or a critic's.
        data: the step, with the fields that the trainer's passes add.
        rows: the same rows, spelled.
        objective: the loss.
        layout: the division into mini-batches and micro-batches.
        image: the placeholder for images.
    """
    critic = isinstance(made, CriticWorker)
    if critic:
        loss: Callable[..., Any] = partial(value_loss, config=critic_settings(objective))
    else:
        loss = set_policy_loss(made, objective, image)
    recorder = Recorder(loss)
    made.set_loss_fn(recorder)
    workers = distributed.get_world_size()
    rank = distributed.get_rank()
    part = tu.chunk_tensordict(data.copy(), workers)[rank]
    more = {} if critic else {"calculate_entropy": True}
    tu.assign_non_tensor(part, **layout.settings(), **more)
    losses = _losses(made.train_mini_batch(part))
    each = len(rows) // workers
    seen = _gathered(recorder.rows)
    found: dict[str, float] = {}
    for place, loss_found in enumerate(losses):
        local = layout.mini // workers
        numbers = [
            worker * each + place * local + n for worker in range(workers) for n in range(local)
        ]
        chosen = {number: seen[number] for number in numbers}
        reference = {n: _reference_row(n, rows, data, seen[n]) for n in numbers}
        expected = loss_reference.value_loss if critic else loss_reference.policy_loss
        terms = expected(list(reference.values()), objective)
        for name, error in _apart(loss_found, chosen, reference, terms["loss"], workers).items():
            found[name] = max(found.get(name, 0.0), error)
    return found


def _losses(answer: TensorDict) -> list[float]:
    values = tu.get(answer, "metrics")["loss"]
    values = values if isinstance(values, list) else [values]
    return [float(value.aggregate() if isinstance(value, Metric) else value) for value in values]


def _gathered(own: dict[int, SeenRow]) -> dict[int, SeenRow]:
    parts: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(parts, own)
    return {number: row for part in parts for number, row in part.items()}


def _reference_row(
    number: int, rows: Sequence[SpelledRow], data: TensorDict, seen: SeenRow
) -> ReferenceRow:
    """Return a row whose model outputs are leaves that receive gradients."""
    numbers = {name: data[name].unbind()[number].double() for name in FIELDS}
    numbers |= {name: output.double().requires_grad_() for name, output in seen.outputs.items()}
    return ReferenceRow(rows[number].kinds, numbers, wholes(rows)[number])


def _apart(
    loss: float,
    seen: Mapping[int, SeenRow],
    rows: Mapping[int, ReferenceRow],
    expected: Tensor,
    workers: int,
) -> dict[str, float]:
    """Return the differences of a mini-batch's loss and gradients, relative to the reference."""
    size = max(abs(expected.item()), SMALL_LOSS)
    found = {"loss": abs(loss - expected.item()) / size}
    outputs = next(iter(seen.values())).gradients
    for name in OUTPUTS.values():
        if name not in outputs:
            continue
        leaves = [rows[number].numbers[name] for number in rows]
        slopes = torch.autograd.grad(
            expected, leaves, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        # verl's workers average their gradients
        own = torch.cat([seen[number].gradients[name].double() for number in rows]) / workers
        theirs = torch.cat(slopes)
        found[f"gradient by {name}"] = float((own - theirs).abs().max() / theirs.abs().max())
    return found
