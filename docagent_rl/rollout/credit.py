"""The credit of a step's sampled tokens: `<run>/credit/<step>.parquet`, one row per training row.

The columns are `uid`, `trajectory`, `row`, and lists of float32 with one number per sampled token,
in order. A list that a run does not have, such as the values of a critic, is null. For estimators
that weigh a group by similarity, `similarities` lists the similarity of this trajectory to each
trajectory of its group, in their order. The file's metadata has what applies to the whole step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import Seal

if TYPE_CHECKING:
    import pyarrow as pa

TOKENS = ("advantages", "returns", "values", "entropy", "kl")
"""Lists with one number per sampled token."""
SIMILARITIES = "similarities"
_LISTS = (*TOKENS, SIMILARITIES)
_ABOUT = b"docagent"
_VERSION = 1

Numbers = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CreditRow:
    """One training row.

    Args:
        trajectory: number of the trajectory in its group.
        row: position of the row in its trajectory.
        lists: the available lists of `TOKENS` and `SIMILARITIES`, by name.
    """

    uid: str
    trajectory: int
    row: int
    lists: Mapping[str, Numbers]


@dataclass(frozen=True, slots=True)
class StepCredit:
    """The training rows of a step, and the name of the estimator."""

    estimator: str
    rows: Sequence[CreditRow]

    def of(self, uid: str, trajectory: int) -> list[CreditRow]:
        """Return the rows of a trajectory, in order."""
        found = [row for row in self.rows if row.uid == uid and row.trajectory == trajectory]
        return sorted(found, key=lambda row: row.row)


def credit_file(run_dir: Path, step: int) -> Path:
    """Return the path of the credit file of a step."""
    return run_dir / "credit" / f"{step}.parquet"


def write_credit(run_dir: Path, step: int, estimator: str, rows: Iterable[CreditRow]) -> Path:
    """Write the credit of a step; if a step is repeated, its file is replaced.

    Raises:
        UserError: the file cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    ordered = sorted(rows, key=lambda row: (row.uid, row.trajectory, row.row))
    about = {_ABOUT: json.dumps({"version": _VERSION, "estimator": estimator})}
    named = (
        {"uid": row.uid, "trajectory": row.trajectory, "row": row.row, **row.lists}
        for row in ordered
    )
    table = pa.Table.from_pylist(list(named), pa.schema(_types().items(), about))
    buffer = BytesIO()
    # 23 bits of noise do not compress; signs, exponents and repeated numbers do, as soon as the
    # bytes of the floats are stored separately
    encoding = {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in _LISTS}
    options = {"compression": "zstd", "use_dictionary": ["uid"], "column_encoding": encoding}
    parquet.write_table(table, buffer, write_page_checksum=True, **options)
    return Seal(run_dir).write(credit_file(run_dir, step), buffer.getvalue())


def read_credit(path: Path, *, uid: str | None = None) -> StepCredit | None:
    """Read the credit of a step; return `None` if there is no such file.

    With `uid`, only the rows of that group are read.

    Raises:
        UserError: the file is damaged, or was written by another release.
    """
    if not path.is_file():
        return None
    estimator, table = credit_table(path, uid=uid)
    return StepCredit(estimator, list(_rows(table)))


def credit_table(path: Path, *, uid: str | None = None) -> tuple[str, pa.Table]:
    """Read the credit of a step; return the name of the estimator, and the columns that the file
    has.

    Raises:
        UserError: the file is damaged, or was written by another release.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        names = parquet.read_schema(path).names
        table = parquet.read_table(
            path,
            columns=["uid", "trajectory", "row", *(name for name in _LISTS if name in names)],
            filters=None if uid is None else [("uid", "=", uid)],
            page_checksum_verification=True,
        )
        about = json.loads((table.schema.metadata or {})[_ABOUT])
        if about["version"] != _VERSION:
            raise ValueError(f"version {about['version']!r}")
        types = _types()
        schema = pa.schema([(name, types[name]) for name in table.column_names])
        return str(about["estimator"]), table.cast(schema)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} contains no credit that this release can read: {error}") from error


def _types() -> dict[str, pa.DataType]:
    """Return the types of all columns."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {"uid": pa.string(), "trajectory": pa.int32()}
    types["row"] = pa.int32()
    return types | dict.fromkeys(_LISTS, pa.list_(pa.float32()))


def _rows(table: pa.Table) -> Iterable[CreditRow]:
    names = [name for name in _LISTS if name in table.column_names]
    columns = {name: table.column(name) for name in ("uid", "trajectory", "row", *names)}
    for index in range(table.num_rows):
        lists = {}
        for name in names:
            value = columns[name][index]
            if value.is_valid:
                numbers = value.values.to_numpy(zero_copy_only=False)
                lists[name] = numbers.astype(np.float32)
        yield CreditRow(
            uid=str(columns["uid"][index].as_py()),
            trajectory=int(columns["trajectory"][index].as_py()),
            row=int(columns["row"][index].as_py()),
            lists=lists,
        )
