"""The observation term of the dual-path KL beside verl's PPO loss (ALDEN, arXiv 2510.25668).

    loss = verl's loss (surrogate + beta_gen * KL over sampled tokens) + beta_obs * KL over observation tokens

The paper prints the two KL terms inside a quantity that it maximises; the sign here is the one that it means.
Each term is a mean over its own tokens, by `actor.loss_agg_mode`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.trainer.ppo.core_algos import agg_loss
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from docagent_rl.losses.config import KlType, ObservationKl
from docagent_rl.losses.estimators import clamped, sampled_kl
from docagent_rl.losses.positions import ObservationRule, Rows
from docagent_rl.training.losses.batch import pad, read_rows
from docagent_rl.training.tensors import count, tensor

Loss = tuple[Tensor, dict[str, Any]]


@dataclass(frozen=True)
class Totals:
    """What means over a whole mini-batch divide by, over all workers.

    verl counts sampled tokens alone. Fields of the micro-batches carry these numbers under the same names.
    """

    observation_tokens: int
    observation_rows: int
    """Rows with at least one of them."""
    observation_images: int

    @classmethod
    def count(cls, rows: Rows, rule: ObservationRule) -> Totals:
        """Of one worker's part of the mini-batch."""
        mask = rule.observations(rows)
        return cls(int(mask.sum()), int(mask.any(1).sum()), int(rule.images(rows).sum()))

    @classmethod
    def read(cls, data: TensorDict) -> Totals:
        """From a micro-batch."""
        return cls(**{name: count(data, name) for name in cls.__dataclass_fields__})

    def fields(self) -> dict[str, int]:
        """As fields of a batch."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ExactValues:
    """The exact divergence at n positions, in row-major order.

    Attributes:
        kl: (n,) nats, with gradient.
        distance: (n,) relative L2 distance of the hidden states from the reference's.
        cosine: (n,) their cosine similarity.
    """

    kl: Tensor
    distance: Tensor
    cosine: Tensor


class ExactTerm(Protocol):
    """Computes the divergence over the whole vocabulary at marked positions of a micro-batch."""

    def __call__(self, data: TensorDict, rows: Rows, mask: Tensor) -> ExactValues:
        """`mask` is (b, t) over response tokens; called in every micro-batch, whatever it holds."""
        ...


class ObservationKlLoss:
    """A loss for verl's `set_loss_fn`: the base loss plus `coef` times the divergence on observation tokens.

    Args:
        base: verl's loss with its configuration bound.
        config: the term; `coef` is positive.
        rule: the positions that count.
        aggregation: `loss_agg_mode` of the actor.
        scale_factor: `loss_scale_factor` of the actor.
        exact: required for `KlType.EXACT`, unused otherwise.
    """

    def __init__(
        self,
        base: Callable[..., Loss],
        config: ObservationKl,
        rule: ObservationRule,
        *,
        aggregation: str,
        scale_factor: int | None = None,
        exact: ExactTerm | None = None,
    ) -> None:
        if (config.type is KlType.EXACT) != (exact is not None):
            raise ValueError(f"type {config.type.value} with exact={exact}")
        self._base, self._config, self._rule, self._exact = base, config, rule, exact
        self._aggregation, self._scale_factor = aggregation, scale_factor

    def __call__(self, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None) -> Loss:
        """The loss of a micro-batch and its metrics, in verl's layout.

        Metrics: `kl_observation` is what `coef` multiplies. The others are means over tokens of the mini-
        batch: `kl_generated` (k3) over sampled ones, `kl_visual` (the term's estimator) over image
        placeholders, and over observation tokens `kl_clamped` (share of positions where k3 has no gradient)
        and, for the exact term alone, `observation_drift_l2` and `observation_drift_cosine` (hidden states
        against those of the reference).
        """
        # verl's part first: see `losses.heads.gathered_head`
        loss, metrics = self._base(model_output=model_output, data=data, dp_group=dp_group)
        rows, totals, workers = read_rows(data), Totals.read(data), count(data, "dp_size")
        log_probs = no_padding_2_padding(model_output["log_probs"], data)
        ref_log_probs = pad(tensor(data, "ref_log_prob"))
        mask = self._rule.observations(rows)
        if self._exact is None:
            kl, drift = sampled_kl(log_probs, ref_log_probs, self._config.type), {}
        else:
            values = self._exact(data, rows, mask)
            kl = _scatter(values.kl, mask)
            drift = {"l2": _scatter(values.distance, mask), "cosine": _scatter(values.cosine, mask)}
        term = self._aggregate(kl, mask, totals, workers)

        log_probs, tokens = log_probs.detach(), totals.observation_tokens
        generated = sampled_kl(log_probs, ref_log_probs, KlType.K3)
        cut = clamped(log_probs, ref_log_probs)
        images = mask & self._rule.images(rows)
        metrics |= {
            "kl_observation": Metric(AggregationType.SUM, term),
            "kl_generated": _mean(generated, rows.sampled, count(data, "batch_num_tokens"), workers),
            "kl_visual": _mean(kl.detach(), images, totals.observation_images, workers),
            "kl_clamped": _mean(cut, mask, tokens, workers),
        }
        for name, values in drift.items():
            metrics[f"observation_drift_{name}"] = _mean(values, mask, tokens, workers)
        return loss + self._config.coef * term, metrics

    def _aggregate(self, kl: Tensor, mask: Tensor, totals: Totals, workers: int) -> Tensor:
        """This micro-batch's part of the mean over observation tokens, scaled as verl scales its losses."""
        return agg_loss(
            loss_mat=kl,
            loss_mask=mask,
            loss_agg_mode=self._aggregation,
            dp_size=workers,
            batch_num_tokens=max(totals.observation_tokens, 1),
            global_batch_size=max(totals.observation_rows, 1),
            loss_scale_factor=self._scale_factor,
        )


def _scatter(values: Tensor, mask: Tensor) -> Tensor:
    """(b, t) with the values at the marked positions and zeros elsewhere."""
    return torch.zeros(mask.shape, dtype=values.dtype, device=values.device).masked_scatter(mask, values)


def _mean(values: Tensor, mask: Tensor, total: int, workers: int) -> Metric:
    """This micro-batch's part of a mean over the mini-batch; verl adds micro-batches and averages workers."""
    part = (values * mask).sum() * workers / max(total, 1)
    return Metric(AggregationType.SUM, part)
