"""Compute the losses of policy and critic in float64, token by token, from their definitions.

No code of verl or the plugin is called. Gradients are torch's own through these formulas.

Sources: PPO (Schulman et al., arXiv 1707.06347, Eq. 7) with the dual clip of Ye et al. (arXiv
1912.09729, Eq. 5); the divergences of J. Schulman, "Approximating KL Divergence" (2020); the
clipped value loss in the release by PPO's authors; ALDEN's KL on observations (arXiv 2510.25668);
MM-Doc-R1, Eq. 1, for means by trajectory; ALDEN, Eq. 6, for means by turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

TRAJECTORY = "trajectory"
TURN = "turn"
"""The means over trajectories and over turns, in addition to verl's means."""
MODES = (
    "token-mean",
    "token-sum",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "seq-mean-token-mean",
)
"""verl's means."""
KL_TYPES = ("kl", "k1", "k1+", "abs", "mse", "k2", "low_var_kl", "k3", "k3+", "low_var_kl+")
"""verl's divergences."""
TRAINED = frozenset("sp")
TARGETS = frozenset("s")
OBSERVED = frozenset("oi")
IMAGES = frozenset("i")
SAMPLED = frozenset("spr")
"""The letters of tokens that the policy trains (`TRAINED`), for which the critic has a target
(`TARGETS`), that were not sampled (`OBSERVED`), and, among these, that stand for images (`IMAGES`).
The remaining letter, `r`, is a token that was sampled (`SAMPLED`) and rejected.
"""
LOG_RATIO = 20.0
DIVERGENCE = 10.0
"""verl's bounds on a log-ratio and on k3; beyond them the gradient is zero."""


@dataclass(frozen=True)
class Objective:
    """A loss to minimise, given by its settings.

    Attributes:
        mode: one of `MODES`, `TRAJECTORY` or `TURN`.
        scale: divisor of `seq-mean-token-sum-norm`.
        clip: how far a ratio may fall below 1 and rise above it.
        dual_clip: the bound of the ratio if the advantage is negative.
        entropy: coefficient of the entropy, which is maximised.
        kl: coefficient of the divergence on trained tokens.
        kl_type: one of `KL_TYPES`.
        observation: coefficient of the divergence on observations; 0 leaves it out.
        observation_type: its estimator.
        images: whether only image placeholders count as observations.
        value_clip: how far a value may move from the old one.
    """

    mode: str
    scale: int = 7
    clip: tuple[float, float] = (0.2, 0.3)
    dual_clip: float = 1.5
    entropy: float = 0.01
    kl: float = 0.05
    kl_type: str = "low_var_kl"
    observation: float = 0.0
    observation_type: str = "k3"
    images: bool = False
    value_clip: float = 0.5


@dataclass(frozen=True)
class ReferenceRow:
    """The response of a row.

    Attributes:
        kinds: a letter for each of t tokens.
        numbers: (t,) float64 by verl's name of the field or of the model's output.
        whole: number of trained tokens in all rows of its trajectory, including other mini-batches.
    """

    kinds: str
    numbers: Mapping[str, Tensor]
    whole: int


def policy_loss(rows: Sequence[ReferenceRow], objective: Objective) -> dict[str, Tensor]:
    """Return the loss of a mini-batch, as `loss`, and its terms by name."""
    trained = [row for row in rows if TRAINED & set(row.kinds)]
    if objective.mode == TURN:
        return _turn_loss(trained, objective)
    observations = IMAGES if objective.images else OBSERVED
    surrogates = []
    entropies = []
    divergences = []
    observed = []
    for row in trained:
        places = _places(row, TRAINED)
        seen = _places(row, observations)
        surrogates.append([_surrogate(row.numbers, at, objective) for at in places])
        entropies.append([row.numbers["entropy"][at] for at in places])
        divergences.append([_divergence(row.numbers, at, objective.kl_type) for at in places])
        observed.append([_divergence(row.numbers, at, objective.observation_type) for at in seen])
    wholes = [row.whole for row in trained]
    terms = {
        "surrogate": _mean(surrogates, wholes, objective),
        "entropy": _mean(entropies, wholes, objective),
        "kl": _mean(divergences, wholes, objective),
    }
    loss = terms["surrogate"] - objective.entropy * terms["entropy"] + objective.kl * terms["kl"]
    if objective.observation:
        terms["observation"] = _mean(observed, wholes, objective)
        loss = loss + objective.observation * terms["observation"]
    return {"loss": loss, **terms}


def turns_of(kinds: str) -> list[list[int]]:
    """Return the places of the tokens of each turn of a response: sampled ones, then observations.

    Observations before the first sampled token belong to the first turn.
    """
    turns: list[list[int]] = [[]]
    for at, kind in enumerate(kinds):
        began = any(kinds[place] in SAMPLED for place in turns[-1])
        if kind in SAMPLED and began and kinds[at - 1] not in SAMPLED:
            turns.append([])
        turns[-1].append(at)
    return turns


def _turn_loss(rows: Sequence[ReferenceRow], objective: Objective) -> dict[str, Tensor]:
    """Return the loss of `policy_loss` as the mean over turns (ALDEN, Eq. 6)."""
    observations = IMAGES if objective.images else OBSERVED
    terms: dict[str, list[Tensor]] = {"surrogate": [], "entropy": [], "kl": [], "observation": []}
    for row in rows:
        for places in turns_of(row.kinds):
            trained = [at for at in places if row.kinds[at] in TRAINED]
            seen = [at for at in places if row.kinds[at] in observations]
            if not trained:
                continue
            losses = {
                "surrogate": [_surrogate(row.numbers, at, objective) for at in trained],
                "entropy": [row.numbers["entropy"][at] for at in trained],
                "kl": [_divergence(row.numbers, at, objective.kl_type) for at in trained],
                "observation": [
                    _divergence(row.numbers, at, objective.observation_type) for at in seen
                ],
            }
            for name, found in losses.items():
                nothing = torch.zeros((), dtype=torch.float64)
                terms[name].append(torch.stack(found).mean() if found else nothing)
    means = {
        name: torch.stack(found).mean() if found else torch.zeros((), dtype=torch.float64)
        for name, found in terms.items()
    }
    loss = means["surrogate"] - objective.entropy * means["entropy"] + objective.kl * means["kl"]
    return {"loss": loss + objective.observation * means["observation"], **means}


def value_loss(rows: Sequence[ReferenceRow], objective: Objective) -> dict[str, Tensor]:
    """Return the loss of a critic's mini-batch, as `loss`.

    It is half of the larger of two squared errors: that of the value, and that of the value clipped
    to the neighbourhood of the old one.
    """
    losses = []
    for row in rows:
        values, old, returns = (row.numbers[name] for name in ("vpreds", "values", "returns"))
        errors = []
        for at in _places(row, TARGETS):
            near = torch.clamp(
                values[at], old[at] - objective.value_clip, old[at] + objective.value_clip
            )
            errors.append(
                torch.maximum((values[at] - returns[at]) ** 2, (near - returns[at]) ** 2) / 2
            )
        losses.append(errors)
    return {"loss": _mean(losses, [row.whole for row in rows], objective)}


def _places(row: ReferenceRow, letters: frozenset[str]) -> list[int]:
    return [at for at, kind in enumerate(row.kinds) if kind in letters]


def _surrogate(numbers: Mapping[str, Tensor], at: int, objective: Objective) -> Tensor:
    """Return the term minimised at a trained token, weighted by the rollout correction."""
    log_ratio = numbers["log_probs"][at] - numbers["old_log_probs"][at]
    ratio = torch.clamp(log_ratio, -LOG_RATIO, LOG_RATIO).exp()
    low, high = objective.clip
    advantage = numbers["advantages"][at]
    gain = torch.minimum(ratio * advantage, torch.clamp(ratio, 1 - low, 1 + high) * advantage)
    if advantage < 0:
        gain = torch.maximum(gain, objective.dual_clip * advantage)
    return -gain * numbers["rollout_is_weights"][at]


def _divergence(numbers: Mapping[str, Tensor], at: int, kind: str) -> Tensor:
    """Return an estimate of KL(policy || reference) at a token, in nats."""
    own = numbers["log_probs"][at]
    other = numbers["ref_log_prob"][at]
    squared = (own - other) ** 2 / 2
    name = kind.removesuffix("+")
    if name in ("kl", "k1"):
        found = own - other
    elif name == "abs":
        found = (own - other).abs()
    elif name in ("mse", "k2"):
        found = squared
    else:
        log_ratio = torch.clamp(other - own, -LOG_RATIO, LOG_RATIO)
        found = torch.clamp(log_ratio.exp() - 1 - log_ratio, max=DIVERGENCE)
    if kind.endswith("+"):
        # the value of one estimator with the gradient of the other
        return squared + (found - squared).detach()
    return found


def _mean(
    losses: Sequence[Sequence[Tensor]], wholes: Sequence[int], objective: Objective
) -> Tensor:
    """Return one number from the losses of tokens by row; a row without any does not count."""
    rows = [torch.stack(list(each)) for each in losses if each]
    if not rows:
        return torch.zeros((), dtype=torch.float64)
    match objective.mode:
        case "token-sum":
            return torch.cat(rows).sum()
        case "token-mean":
            return torch.cat(rows).mean()
        case "seq-mean-token-sum":
            return torch.stack([row.sum() for row in rows]).mean()
        case "seq-mean-token-sum-norm":
            return torch.stack([row.sum() for row in rows]).mean() / objective.scale
        case "seq-mean-token-mean":
            return torch.stack([row.mean() for row in rows]).mean()
        case "trajectory":
            lengths = [whole for whole, each in zip(wholes, losses, strict=True) if each]
            total = torch.stack(
                [row.sum() / length for row, length in zip(rows, lengths, strict=True)]
            ).sum()
            return total / sum(len(row) / length for row, length in zip(rows, lengths, strict=True))
        case _:
            raise ValueError(f"there is no mean {objective.mode}")
