"""Build the inputs of estimators from the rows of a batch and its trajectories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from docagent_rl.advantages import Need
from docagent_rl.advantages.inputs import AdvantageInputs, Discounts
from docagent_rl.rollout.digest import TrajectoryDigest, TurnDigest, joined_texts


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The trajectory and group (b,) of each row, numbered in the order of first appearance.

    `row` (b,) is the position of a row in its trajectory; `first` contains the first row in the
    batch of each trajectory.
    """

    trajectory: Tensor
    row: Tensor
    group: Tensor
    first: Sequence[int]

    @classmethod
    def parse(cls, keys: Sequence[str]) -> RowKeys:
        """Parse verl's keys `{uid}_{trajectory}_{index}`; a uid may contain underscores."""
        trajectories: dict[tuple[str, str], int] = {}
        groups: dict[str, int] = {}
        numbers = []
        first = []
        for position, key in enumerate(keys):
            uid, trajectory, index = key.rsplit("_", 2)
            if (uid, trajectory) not in trajectories:
                trajectories[uid, trajectory] = len(trajectories)
                first.append(position)
            group = groups.setdefault(uid, len(groups))
            numbers.append((trajectories[uid, trajectory], int(index), group))
        trajectory, row, group = torch.tensor(numbers).unbind(1)
        return cls(trajectory, row, group, first)


class TermRewards(Mapping[str, Tensor]):
    """Reward terms (b, t) by name, computed on access.

    `row` (b,) is the position of each row in its trajectory, `turn_index` (b, t) the turn of each
    sampled token, -1 elsewhere.
    """

    def __init__(self, trajectories: Sequence[TrajectoryDigest], row: Tensor, turn_index: Tensor):
        self._trajectories = trajectories
        self._row = row.tolist()
        self._turn_index = turn_index
        self._names = sorted(
            {name for t in trajectories for turn in t.turns for name in turn.terms}
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        values = torch.zeros(self._turn_index.shape)
        for number, (trajectory, row) in enumerate(zip(self._trajectories, self._row, strict=True)):
            for turn, ordinal in rewarded_turns(trajectory.turns, row):
                tokens = (self._turn_index[number] == ordinal).nonzero().flatten()
                if not len(tokens) or name not in turn.terms:
                    continue
                # a term on tokens inside the turn is split evenly, any other is on its last token
                on_tokens = [term for term in turn.token_terms if term[0] == name]
                for _, start, end, value in on_tokens:
                    values[number, tokens[start:end]] += value / (end - start)
                if not on_tokens:
                    values[number, tokens[-1]] += turn.terms[name]
        return values


def rewarded_turns(turns: Sequence[TurnDigest], row: int) -> Iterator[tuple[TurnDigest, int]]:
    """Yield the turns whose reward is in a row of their trajectory, with the turn that carries it.

    A turn carries its own reward. A turn without sampled tokens passes its reward on to the nearest
    earlier turn with sampled tokens, in whichever row, or to the first such turn if there is no
    earlier one (`Trajectory`).

    Yields:
        The turn, and the ordinal among the row's turns of the turn that carries its reward.
    """
    ordinals: Counter[int] = Counter()
    carrier: tuple[int, int] | None = None
    waiting: list[TurnDigest] = []
    for turn in turns:
        ordinal = ordinals[turn.row]
        ordinals[turn.row] += 1
        waiting.append(turn)
        carrier = (turn.row, ordinal) if turn.sampled else carrier
        if carrier is not None:
            yield from ((each, carrier[1]) for each in waiting if carrier[0] == row)
            waiting.clear()


Embed = Callable[[Sequence[str]], Tensor]
"""`texts -> (n, d)`"""


def prefix_embeddings(trajectories: Sequence[TrajectoryDigest], embed: Embed) -> Tensor:
    """Embed in one call what each of s trajectories did in its first n turns, for all n.

    Returns:
        (s, k + 1, d), where k is the largest number of turns; zeros for n = 0, and a trajectory's
        last vector from its last turn on.
    """
    prefixes: list[list[str]] = []
    for trajectory in trajectories:
        texts = [turn.text for turn in trajectory.turns]
        prefixes.append([joined_texts(texts[:count]) for count in range(1, len(texts) + 1)])
    vectors = embed(list(chain.from_iterable(prefixes)))
    lengths = [len(own) for own in prefixes]
    longest = max(lengths)
    table = torch.zeros(len(trajectories), longest + 1, vectors.shape[1], dtype=vectors.dtype)
    for number, own in enumerate(vectors.split(lengths)):
        if len(own):
            table[number, 1 : len(own) + 1] = own
            table[number, len(own) + 1 :] = own[-1]
    return table


def advantage_inputs(
    *,
    keys: Sequence[str],
    trajectories: Sequence[TrajectoryDigest],
    token_rewards: Tensor,
    turn_index: Tensor,
    values: Tensor | None,
    discounts: Discounts,
    needs: frozenset[Need] = frozenset(),
    embed: Embed | None = None,
) -> AdvantageInputs:
    """Return one batch as input for an estimator with certain `needs`; all tensors are on the CPU.

    The arguments describe b rows: verl's `keys`, their `trajectories`, `token_rewards` (b, t) after
    the KL penalty, if any, `turn_index` (b, t), -1 on tokens that were not sampled, and `values`
    (b, t). `embed` is called if the estimator needs embeddings.

    Raises:
        UserError: see `AdvantageInputs`.
    """
    numbers = RowKeys.parse(keys)
    first = [trajectories[n] for n in numbers.first]
    texts = [each.text for each in first]
    embeddings = prefixes = None
    if embed is not None:
        embeddings = embed(texts) if Need.EMBEDDINGS in needs else None
        prefixes = prefix_embeddings(first, embed) if Need.PREFIXES in needs else None
    return AdvantageInputs(
        token_rewards=token_rewards.float(),
        mask=turn_index >= 0,
        turn_index=turn_index,
        trajectory=numbers.trajectory,
        row=numbers.row,
        group=numbers.group,
        values=None if values is None else values.float(),
        embeddings=embeddings,
        prefix_embeddings=prefixes,
        step=None if prefixes is None else steps_of(trajectories, numbers.row, turn_index),
        texts=texts,
        terms=TermRewards(trajectories, numbers.row, turn_index),
        discounts=discounts,
    )


def steps_of(trajectories: Sequence[TrajectoryDigest], row: Tensor, turn_index: Tensor) -> Tensor:
    """Return for each token the number of its turn in the trajectory, -1 where nothing was sampled.

    `row` (b,) is the position of each row in its trajectory, `turn_index` (b, t) the number of each
    token's turn in the row.
    """
    # for each row, the numbers of its turns in the trajectory
    numbers = []
    for trajectory, own_row in zip(trajectories, row.tolist(), strict=True):
        turns = enumerate(trajectory.turns)
        numbers.append(torch.tensor([number for number, turn in turns if turn.row == own_row]))
    table = torch.nn.utils.rnn.pad_sequence(numbers, batch_first=True, padding_value=-1).long()

    most_turns = table.shape[1]
    if not most_turns:
        return torch.full_like(turn_index, -1)
    known = (turn_index >= 0) & (turn_index < most_turns)
    steps = table.gather(1, turn_index.long().clamp(0, most_turns - 1)).to(turn_index.dtype)
    return steps.masked_fill(~known, -1)
