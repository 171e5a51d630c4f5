"""Slow, literal versions of the estimators, computed on Python numbers."""

import math
from collections import defaultdict

import torch

from docagent_rl.advantages.inputs import AdvantageInputs

Token = tuple[int, int]


def trajectory_turns(inputs: AdvantageInputs) -> dict[int, list[list[Token]]]:
    """Return the turns of each trajectory, each a list of (batch row, position)."""
    order = sorted(
        range(len(inputs.row)), key=lambda b: (int(inputs.trajectory[b]), int(inputs.row[b]))
    )
    trajectories: dict[int, list[list[Token]]] = defaultdict(list)
    for b in order:
        turns: dict[int, list[Token]] = {}
        for s in range(inputs.mask.shape[1]):
            if inputs.mask[b, s] and inputs.valid[b]:
                turns.setdefault(int(inputs.turn_index[b, s]), []).append((b, s))
        trajectories[int(inputs.trajectory[b])] += [turns[k] for k in sorted(turns)]
    return dict(trajectories)


def gae(rewards: list[float], values: list[float], gamma: float, lam: float) -> list[float]:
    """Return advantages by summing temporal differences."""
    deltas = [
        r + gamma * (values[k + 1] if k + 1 < len(values) else 0.0) - values[k]
        for k, r in enumerate(rewards)
    ]
    return [
        sum((gamma * lam) ** (j - k) * deltas[j] for j in range(k, len(deltas)))
        for k in range(len(deltas))
    ]


def token_gae(inputs: AdvantageInputs) -> tuple[torch.Tensor, torch.Tensor]:
    advantages, returns = torch.zeros(2, *inputs.mask.shape, dtype=torch.float64)
    for b in range(len(inputs.mask)):
        at = [s for s in range(inputs.mask.shape[1]) if inputs.mask[b, s]]
        values = [float(inputs.values[b, s]) for s in at]
        rewards = [float(inputs.token_rewards[b, s]) for s in at]
        d = inputs.discounts
        for s, v, a in zip(
            at, values, gae(rewards, values, d.gamma_token, d.lam_token), strict=True
        ):
            advantages[b, s], returns[b, s] = a, a + v
    return advantages, returns


def turn_gae(
    inputs: AdvantageInputs, anchor: str, broadcast: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    advantages, returns = torch.zeros(2, *inputs.mask.shape, dtype=torch.float64)
    d = inputs.discounts
    for turns in trajectory_turns(inputs).values():
        at = [t[-1] if anchor == "end" else t[0] for t in turns]
        level_values = [float(inputs.values[a]) for a in at]
        rewards = [float(inputs.token_rewards[t[-1]]) for t in turns]
        level = gae(rewards, level_values, d.gamma_turn, d.lam_turn)
        for turn, value, a in zip(turns, level_values, level, strict=True):
            values = [float(inputs.values[s]) for s in turn]
            inner = [float(inputs.token_rewards[s]) for s in turn[:-1]] + [a + value]
            inner = gae(inner, values, d.gamma_token, d.lam_token)
            for s, v, x in zip(turn, values, inner, strict=True):
                advantages[s], returns[s] = (a, v) if broadcast else (x, x + v)
            if broadcast:
                returns[turn[-1] if anchor == "end" else turn[0]] = a + value
    return advantages, returns


def whitened(advantages: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    numbers = [float(a) for a in advantages[mask]]
    if len(numbers) < 2:
        return torch.zeros_like(advantages)
    mean = sum(numbers) / len(numbers)
    variance = sum((a - mean) ** 2 for a in numbers) / (len(numbers) - 1)
    return (advantages - mean) / math.sqrt(variance + 1e-8) * mask


def groups_of(inputs: AdvantageInputs) -> list[dict[int, list[float]]]:
    """Return the turn rewards of the trajectories with tokens, group by group."""
    groups: dict[int, dict[int, list[float]]] = defaultdict(dict)
    group_of = dict(zip(inputs.trajectory.tolist(), inputs.group.tolist(), strict=True))
    for trajectory, turns in trajectory_turns(inputs).items():
        if turns:
            rewards = [sum(float(inputs.token_rewards[s]) for s in turn) for turn in turns]
            groups[group_of[trajectory]][trajectory] = rewards
    return list(groups.values())


def write(inputs: AdvantageInputs, scores: dict[int, list[float]]) -> torch.Tensor:
    """Give the turn scores of each trajectory to the tokens."""
    dense = torch.zeros(inputs.mask.shape, dtype=torch.float64)
    for trajectory, turns in trajectory_turns(inputs).items():
        for k, turn in enumerate(turns):
            for s in turn:
                dense[s] = scores[trajectory][k]
    return dense


def deviation(numbers: list[float], std: str) -> float:
    if std == "none":
        return 1.0
    mean = sum(numbers) / len(numbers)
    n = len(numbers) - (std == "unbiased")
    return math.sqrt(sum((x - mean) ** 2 for x in numbers) / n) if n else 0.0


def grpo(inputs: AdvantageInputs, std: str, loo: bool) -> torch.Tensor:
    scores = {}
    for members in groups_of(inputs):
        totals = {s: sum(r) for s, r in members.items()}
        numbers = list(totals.values())
        for s, total in totals.items():
            others = [x for o, x in totals.items() if not (loo and o == s)]
            a = 0.0 if len(numbers) == 1 else total - sum(others) / len(others)
            a /= deviation(numbers, std) + (1e-6 if std != "none" else 0.0)
            scores[s] = [a] * len(members[s])
    return write(inputs, scores)


def spo(inputs: AdvantageInputs, negatives: str, loo: bool, std: str) -> torch.Tensor:
    ids = sorted(set(inputs.trajectory.tolist()))
    vector = {s: inputs.embeddings[k].double() for k, s in enumerate(ids)}
    shape = {
        "clamp": lambda c: max(c, 0.0),
        "affine": lambda c: (1 + c) / 2,
        "softmax": lambda c: math.exp(c / 0.2),
    }[negatives]
    scores = {}
    for members in groups_of(inputs):
        totals = {s: sum(r) for s, r in members.items()}
        numbers = list(totals.values())

        def weights(i: int, loo: bool, members: dict = members) -> dict[int, float]:
            def cosine(j: int) -> float:
                return (
                    1.0 if i == j else float(torch.cosine_similarity(vector[i], vector[j], dim=0))
                )

            raw = {j: shape(cosine(j)) for j in members if not (loo and i == j)}
            total = sum(raw.values())
            return {j: w / total if total > 0 else 1 / len(raw) for j, w in raw.items()}

        for i, total in totals.items():
            if len(numbers) == 1:
                scores[i] = [0.0] * len(members[i])
                continue
            a = total - sum(w * totals[j] for j, w in weights(i, loo).items())
            if std == "group":
                a /= deviation(numbers, "biased") + 1e-6
            elif std == "weighted":
                with_self = weights(i, False)
                b = sum(w * totals[j] for j, w in with_self.items())
                a /= math.sqrt(sum(w * (totals[j] - b) ** 2 for j, w in with_self.items())) + 1e-6
            scores[i] = [a] * len(members[i])
    return write(inputs, scores)


def turn_grpo(inputs: AdvantageInputs, padded: bool, std: str, loo: bool) -> torch.Tensor:
    scores = {}
    for members in groups_of(inputs):
        to_go = {s: [sum(r[k:]) for k in range(len(r))] for s, r in members.items()}
        spread = deviation([sum(r) for r in members.values()], std) + (
            1e-6 if std != "none" else 0.0
        )
        for s, row in to_go.items():
            scores[s] = []
            for k, own in enumerate(row):
                column = {
                    o: r[k] if k < len(r) else 0.0 for o, r in to_go.items() if padded or k < len(r)
                }
                others = [x for o, x in column.items() if not (loo and o == s)]
                centred = 0.0 if len(column) == 1 else own - sum(others) / len(others)
                scores[s].append(centred / spread)
    return write(inputs, scores)
