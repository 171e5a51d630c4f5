"""Read the digests and lines of the trajectories that the rows of a batch belong to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta

from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.training.agent_loop.output import OURS, TRAJECTORY_DIGEST, TRAJECTORY_LINE
from docagent_rl.training.tensors import partition

_LINES_AT_ONCE = 64


class TrajectoryReader:
    """Reads the digest in the first row of each trajectory, once per step.

    The group filter, the sampling of a step, its advantages and its archive share these objects.
    """

    def __init__(self) -> None:
        self._known: dict[str, TrajectoryDigest | None] = {}

    def fetch(self, batch: KVBatchMeta) -> list[tuple[str, TrajectoryDigest]]:
        """Return the trajectory of each row with the row's key.

        Rows of other agent loops, and verl's padding rows, have none and are omitted.
        """
        return self.fetch_rows(batch.keys, partition(batch))

    def fetch_rows(
        self, keys: Sequence[str], partition_id: str
    ) -> list[tuple[str, TrajectoryDigest]]:
        """Return the trajectories of rows as `fetch` does."""
        trajectories = {key: trajectory_of(key) for key in keys}
        new = [name for name in dict.fromkeys(trajectories.values()) if name not in self._known]
        if new:
            self._known.update(_digests(new, partition_id))
        found = {key: self._known[name] for key, name in trajectories.items()}
        return [(key, digest) for key, digest in found.items() if digest is not None]

    def forget(self) -> None:
        """Release the trajectories of a step that has ended."""
        self._known.clear()


def trajectory_of(key: str) -> str:
    """Return the part of verl's `{uid}_{trajectory}_{index}` that identifies the trajectory."""
    return key.rpartition("_")[0]


def distinct(rows: Iterable[tuple[str, TrajectoryDigest]]) -> list[TrajectoryDigest]:
    """Return the distinct trajectories of rows."""
    return list({(each.uid, each.number): each for _, each in rows}.values())


def fetch_lines(trajectories: Iterable[TrajectoryDigest], partition_id: str) -> dict[str, bytes]:
    """Return the lines of trajectories (`line_of`), by `{uid}_{trajectory}`."""
    names = [f"{each.uid}_{each.number}" for each in trajectories]
    lines: dict[str, bytes] = {}
    for start in range(0, len(names), _LINES_AT_ONCE):
        some = names[start : start + _LINES_AT_ONCE]
        lines |= zip(some, _column(some, partition_id, TRAJECTORY_LINE), strict=True)
    return lines


def read_validation_digests(
    digests: Sequence[str | None], number: int
) -> list[TrajectoryDigest | None]:
    """Parse the digests that verl collected in a validation; `None` for trajectories without
    one.
    """
    if not digests:
        return [None] * number
    return [None if text is None else TrajectoryDigest.from_json(text) for text in digests]


def _digests(names: Sequence[str], partition_id: str) -> Mapping[str, TrajectoryDigest | None]:
    extra_fields = _column(names, partition_id, "extra_fields")
    # rows of other agent loops do not have these fields
    ours = [
        name
        for name, fields in zip(names, extra_fields, strict=True)
        if isinstance(fields, dict) and OURS in fields
    ]
    found: dict[str, TrajectoryDigest | None] = dict.fromkeys(names)
    if ours:
        for name, text in zip(ours, _column(ours, partition_id, TRAJECTORY_DIGEST), strict=True):
            digest = TrajectoryDigest.from_json(text)
            # verl's padding rows are copies of another row under a different name
            found[name] = digest if f"{digest.uid}_{digest.number}" == name else None
    return found


def _column(names: Sequence[str], partition_id: str, field: str) -> list[Any]:
    """Return a field of the first row of each trajectory."""
    keys = [f"{name}_0" for name in names]
    data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=[field])
    return [getattr(value, "data", value) for value in list(data[field])]
