"""What turns earn, what the critic thought of them, and what they are credited with, by their number."""

from __future__ import annotations

import torch
from torch import Tensor

from docagent_rl.advantages.compress import SampledTokens, compress
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.sessions import TurnTable, turn_table


def turn_metrics(inputs: AdvantageInputs, result: Advantages) -> dict[str, float]:
    """Averages over the sessions of a batch for the first turn, the second, and so on.

    Args:
        inputs: batch of (b, t).
        result: what an estimator made of it.

    Returns:
        For each turn number `k`, from 1: `turns/sessions/k`, how many sessions have it; `turns/reward/k`,
        the mean of its reward; `turns/advantage/k` and `turns/advantage_std/k`, over its tokens; and with a
        critic `turns/value/k` and `turns/target/k`, at the turn's last token, whose value turn-level GAE
        reads.
    """
    tokens = compress(inputs)
    turns = turn_table(inputs, tokens)
    if not len(turns.last):
        return {}
    columns = {
        "sessions": torch.bincount(turns.ordinal),
        "reward": _means(turns.rewards, turns.ordinal),
        **_credited(tokens, turns, result.advantages),
    }
    if inputs.values is not None:
        columns["value"] = _means(tokens.gather(inputs.values)[turns.last], turns.ordinal)
        columns["target"] = _means(tokens.gather(result.returns)[turns.last], turns.ordinal)
    return {
        f"turns/{name}/{k}": float(value)
        for name, column in columns.items()
        for k, value in enumerate(column.tolist(), start=1)
    }


def _credited(tokens: SampledTokens, turns: TurnTable, advantages: Tensor) -> dict[str, Tensor]:
    """Mean and spread over the tokens of each turn number, each (T,)."""
    credit, number = tokens.gather(advantages), turns.ordinal[tokens.turn]
    mean = _means(credit, number)
    spread = _means((credit - mean[number]).square(), number).sqrt()
    return {"advantage": mean, "advantage_std": spread}


def _means(x: Tensor, number: Tensor) -> Tensor:
    """Means of (n,) by number (n,) from 0 to T-1, without gaps: (T,)."""
    return torch.bincount(number, weights=x) / torch.bincount(number)
