"""Batches for the tests: written by hand, or drawn at random."""

from dataclasses import dataclass, replace

import torch
from hypothesis import settings
from hypothesis import strategies as st

from docagent_rl.advantages.inputs import AdvantageInputs, Discounts


def batch(
    turns: list[list[int]],
    rewards: list[list[float]],
    values: list[list[float]] | None = None,
    trajectory: list[int] | None = None,
    row: list[int] | None = None,
    group: list[int] | None = None,
    **more: object,
) -> AdvantageInputs:
    """Return a batch of the given rows: `turns` has the turn of each sampled token, and -1
    elsewhere.
    """
    turn_index = torch.tensor(turns)
    count = len(turns)
    return AdvantageInputs(
        token_rewards=torch.tensor(rewards, dtype=torch.float64),
        values=None if values is None else torch.tensor(values, dtype=torch.float64),
        mask=turn_index >= 0,
        turn_index=turn_index,
        trajectory=torch.tensor(trajectory or list(range(count))),
        row=torch.tensor(row or [0] * count),
        group=torch.tensor(group or [0] * count),
        **more,
    )


def from_turn_rewards(
    trajectories: list[list[float]], group: list[int] | None = None, **more: object
) -> AdvantageInputs:
    """Return a batch with one row per trajectory and one token per turn, each followed by an
    observation.
    """
    width = 2 * max(len(s) for s in trajectories)
    turns = [
        [k // 2 if k % 2 == 0 and k // 2 < len(s) else -1 for k in range(width)]
        for s in trajectories
    ]
    rewards = [
        [s[k // 2] if t >= 0 else 0.0 for k, t in enumerate(row)]
        for s, row in zip(trajectories, turns, strict=True)
    ]
    return batch(turns, rewards, group=group, **more)


checked = settings(deadline=None, max_examples=15)
"""First calls import verl or warm torch up, and machines are shared: no deadline an example."""


@dataclass(frozen=True)
class Shape:
    """The shape of a batch: each trajectory has rows, each row turns of (observations before,
    sampled tokens); and the group of each trajectory.
    """

    trajectories: list[list[list[tuple[int, int]]]]
    groups: list[int]
    seed: int


@st.composite
def shapes(draw: st.DrawFn, max_rows: int = 3, min_rows: int = 1) -> Shape:
    turn = st.tuples(st.integers(0, 3), st.integers(1, 4))
    row = st.lists(turn, min_size=0, max_size=4)
    trajectories = draw(
        st.lists(st.lists(row, min_size=min_rows, max_size=max_rows), min_size=1, max_size=6)
    )
    groups = draw(
        st.lists(st.integers(0, 2), min_size=len(trajectories), max_size=len(trajectories))
    )
    return Shape(trajectories, groups, draw(st.integers(0, 2**31)))


unit = st.sampled_from([0.0, 0.3, 0.5, 0.9, 0.95, 1.0])
discounts = st.builds(Discounts, unit, unit, unit, unit)


def build(shape: Shape, d: Discounts | None = None) -> AdvantageInputs:
    """Return a batch with its rows in random order, and noise on all values and on rewards of
    observations.
    """
    generator = torch.Generator().manual_seed(shape.seed)
    rows = [
        (s, r, turns) for s, rows in enumerate(shape.trajectories) for r, turns in enumerate(rows)
    ]
    width = max([sum(gap + n for gap, n in turns) for _, _, turns in rows]) + 3
    turn_index, step = torch.full((2, len(rows), width), -1)
    done = [0] * len(shape.trajectories)
    for b, (s, _, turns) in enumerate(rows):
        at = 0
        for k, (gap, n) in enumerate(turns):
            turn_index[b, at + gap : at + gap + n] = 2 * k if shape.seed % 2 else k
            step[b, at + gap : at + gap + n] = done[s]
            at, done[s] = at + gap + n, done[s] + 1
    shuffled = torch.randperm(len(rows), generator=generator)
    count = len(shape.trajectories)
    return AdvantageInputs(
        token_rewards=torch.randn(turn_index.shape, generator=generator, dtype=torch.float64),
        values=torch.randn(turn_index.shape, generator=generator, dtype=torch.float64),
        mask=turn_index[shuffled] >= 0,
        turn_index=turn_index[shuffled],
        trajectory=torch.tensor([10 * s + 3 for s, _, _ in rows])[shuffled],
        row=torch.tensor([5 * r for _, r, _ in rows])[shuffled],
        group=torch.tensor([7 * shape.groups[s] for s, _, _ in rows])[shuffled],
        embeddings=torch.randn(count, 3, generator=generator),
        prefix_embeddings=torch.randn(count, max(done) + 1, 3, generator=generator),
        step=step[shuffled],
        discounts=d or Discounts(),
    )


def noise_off_tokens(inputs: AdvantageInputs) -> AdvantageInputs:
    """Return the same batch with other values and rewards wherever nothing was sampled."""
    junk = torch.full_like(inputs.token_rewards, 1e6)
    junk[:, ::2] = float("nan")
    values = (
        inputs.values if inputs.values is None else torch.where(inputs.mask, inputs.values, junk)
    )
    rewards = torch.where(inputs.mask, inputs.token_rewards, junk)
    return replace(inputs, token_rewards=rewards, values=values)


def take_rows(inputs: AdvantageInputs, order: torch.Tensor, **changes: object) -> AdvantageInputs:
    """Return rows of a batch: in another order, only some of them, or some of them twice."""
    names = (
        "token_rewards",
        "values",
        "mask",
        "turn_index",
        "step",
        "trajectory",
        "row",
        "group",
        "valid",
    )
    picked = {n: getattr(inputs, n)[order] for n in names if getattr(inputs, n) is not None}
    return replace(inputs, **(picked | changes))
