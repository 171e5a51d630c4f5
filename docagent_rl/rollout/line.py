"""A trajectory as one line of JSON, made once, with a hole in each turn for what only the trainer knows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import repeat

import numpy as np
import orjson
from numpy.typing import NDArray

from docagent_rl.base.text import encodable
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, plain

_HOLE = "trainer_log_probs"
_TRAJECTORY = [each.name for each in fields(Trajectory)]
_TURN = [each.name for each in fields(TrajectoryTurn)]


@dataclass(frozen=True, slots=True)
class TrajectoryLine:
    """What `Trajectory.to_json` gives, in UTF-8, without the trainer's log-probs.

    Args:
        text: the line without its line break.
        holes: byte offset of the missing value of each turn, in the order of turns.
    """

    text: bytes
    holes: Sequence[int]

    @classmethod
    def of(cls, trajectory: Trajectory) -> TrajectoryLine:
        """Serialise a trajectory without the trainer's log-probs that it may have."""
        place = _TRAJECTORY.index("turns")
        pieces = [_json(trajectory, _TRAJECTORY[:place])[:-1] + ', "turns": [']
        for number, turn in enumerate(trajectory.turns):
            before, after = _turn(turn)
            pieces[-1] += (", " if number else "") + before
            pieces.append(after)
        pieces[-1] += "], " + _json(trajectory, _TRAJECTORY[place + 1 :])[1:]
        encoded = [encodable(piece).encode() for piece in pieces]
        ends = np.cumsum([len(piece) for piece in encoded])
        return cls(b"".join(encoded), ends[:-1].tolist())

    def filled(self, log_probs: Iterable[NDArray[np.float64] | None] | None = None) -> Iterator[bytes]:
        """The pieces of the whole line, in order.

        Args:
            log_probs: the trainer's for the sampled tokens of each turn, `None` for a turn without; by
                default no turn has any.

        Raises:
            ValueError: not one a turn.
        """
        at, whole = 0, memoryview(self.text)
        values = repeat(None, len(self.holes)) if log_probs is None else log_probs
        for hole, value in zip(self.holes, values, strict=True):
            yield bytes(whole[at:hole])
            yield _numbers(value)
            at = hole
        yield bytes(whole[at:])


def _turn(turn: TrajectoryTurn) -> tuple[str, str]:
    place = _TURN.index(_HOLE)
    before, after = _json(turn, _TURN[:place]), _json(turn, _TURN[place + 1 :])
    return f'{before[:-1]}, "{_HOLE}": ', f", {after[1:]}"


def _json(holder: Trajectory | TrajectoryTurn, names: Sequence[str]) -> str:
    values = {name: getattr(holder, name) for name in names}
    return json.dumps(values, ensure_ascii=False, default=plain)


def _numbers(values: NDArray[np.float64] | None) -> bytes:
    if values is None:
        return b"null"
    if not np.isfinite(values).all():  # which JSON has no word for, and Python's has
        return json.dumps(values.tolist()).encode()
    return orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)


def whole_line(line: TrajectoryLine) -> bytes:
    """A line without anything from the trainer, as validations have it."""
    return b"".join(line.filled())
