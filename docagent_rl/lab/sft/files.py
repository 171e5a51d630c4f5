"""Files of training rows for supervised fine-tuning: Parquet, written and read a few rows at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from docagent_rl.base.errors import UserError
from docagent_rl.envs.images import Picture
from docagent_rl.lab.sft.pictures import read_picture
from docagent_rl.samples.parquet import UNREADABLE

if TYPE_CHECKING:
    import numpy as np

SCHEMA = pa.schema(
    [
        ("question_id", pa.string()),
        ("system", pa.string()),
        ("row", pa.int32()),
        ("reward", pa.float32()),
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int8())),
        ("images", pa.list_(pa.string())),
    ]
)
"""Columns of a file; images are JSON references into a document store."""
GROUP = 32
"""Rows that are read together: of 40,000 tokens each, 6 MB."""

_TOKENIZER = b"docagent_tokenizer"


@dataclass(frozen=True, slots=True)
class SftRow:
    """One context of one trajectory, `t` tokens.

    Args:
        question_id: the question.
        system: the system that was played.
        row: number of the context in its trajectory.
        reward: reward of the whole trajectory, for filters.
        input_ids: `(t,)`, prompt and response.
        loss_mask: `(t,)`, 1 exactly on what the policy, or the script in its place, wrote.
        images: the images whose placeholders are in `input_ids`, in order.
    """

    question_id: str
    system: str
    row: int
    reward: float
    input_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    images: tuple[Picture, ...]


def file_pieces(rows: Iterable[SftRow], digest: str, name: str = "rows") -> Iterator[bytes]:
    """The bytes of a file, in pieces of `GROUP` rows; the same rows give the same bytes.

    Args:
        rows: the rows, read as the pieces are asked for.
        digest: of the vocabulary (`rows.tokenizer_digest`).
        name: of the file, for the message.

    Raises:
        UserError: there is no row.
    """
    sink, remaining = _Pieces(), iter(rows)
    schema = SCHEMA.with_metadata({_TOKENIZER: digest.encode()})
    empty = True
    with pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True) as writer:
        while group := list(islice(remaining, GROUP)):
            empty = False
            writer.write_table(pa.Table.from_pylist([_values(row) for row in group], schema=schema))
            yield sink.take()
        if empty:
            raise UserError(f"{name}: no rows to write; supervised training needs at least one trajectory")
    yield sink.take()


class SftFile:
    """Rows by number; `GROUP` of them are in memory at a time.

    Args:
        path: the file.
        digest: of the vocabulary that it has to be made with; `None` leaves that unchecked.

    Raises:
        UserError: the file is missing, is no such file, is damaged, or was made with another vocabulary.
    """

    def __init__(self, path: str | Path, digest: str | None = None) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise UserError(f"{self.path}: no such file of supervised rows")
        with self._reading():
            file = self._open()
            schema = file.schema_arrow
        if not schema.equals(SCHEMA):
            expected = ", ".join(SCHEMA.names)
            raise UserError(f"{self.path}: not a file of supervised rows; expected columns {expected}")
        made_with = (schema.metadata or {}).get(_TOKENIZER, b"").decode()
        if digest is not None and made_with != digest:
            raise UserError(
                f"{self.path}: made with the vocabulary of another model; export the trajectories again"
            )
        self._starts = [0]
        for group in range(file.num_row_groups):
            self._starts.append(self._starts[-1] + file.metadata.row_group(group).num_rows)
        self._group: tuple[int, pa.Table] | None = None

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[SftRow]:
        return (self.row(index) for index in range(len(self)))

    def row(self, index: int) -> SftRow:
        """The row of a number, from 0.

        Raises:
            UserError: its part of the file is damaged.
        """
        group = next(n for n, end in enumerate(self._starts[1:]) if index < end)
        if self._group is None or self._group[0] != group:
            self._group = (group, self._read(group))
        (values,) = self._group[1].slice(index - self._starts[group], 1).to_pylist()
        return _row(values)

    def lengths(self) -> np.ndarray:
        """`(rows,)` int64: tokens of each row."""
        parts = [self._read(n, ["input_ids"])["input_ids"] for n in range(len(self._starts) - 1)]
        found = pa.chunked_array([part.combine_chunks().value_lengths() for part in parts], pa.int32())
        return found.to_numpy().astype("int64")

    def pictures(self) -> Iterator[Picture]:
        """Every image of every row, in order."""
        for group in range(len(self._starts) - 1):
            for images in self._read(group, ["images"])["images"].to_pylist():
                yield from (read_picture(json.loads(image)) for image in images)

    def _read(self, group: int, columns: list[str] | None = None) -> pa.Table:
        with self._reading():
            table = self._open().read_row_group(group, columns=columns, use_threads=False)
            table.validate(full=True)
            return table

    def _open(self) -> pq.ParquetFile:
        """Opened anew each time: the workers of a data loader are forks, and share no handle so."""
        return pq.ParquetFile(self.path, page_checksum_verification=True)

    @contextmanager
    def _reading(self) -> Generator[None]:
        try:
            yield
        except UNREADABLE as error:
            raise UserError(f"{self.path}: not a Parquet file ({error})") from error


class _Pieces(io.RawIOBase):
    """Takes what a writer writes, and gives it away piece by piece."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._at += len(part)
        return len(part)

    def tell(self) -> int:
        return self._at

    def take(self) -> bytes:
        part = b"".join(self._parts)
        self._parts.clear()
        return part


def _values(row: SftRow) -> dict[str, Any]:
    return {
        "question_id": row.question_id,
        "system": row.system,
        "row": row.row,
        "reward": row.reward,
        "input_ids": row.input_ids,
        "loss_mask": row.loss_mask,
        "images": [json.dumps(image.to_dict()) for image in row.images],
    }


def _row(values: dict[str, Any]) -> SftRow:
    return SftRow(
        question_id=values["question_id"],
        system=values["system"],
        row=values["row"],
        reward=values["reward"],
        input_ids=tuple(values["input_ids"]),
        loss_mask=tuple(values["loss_mask"]),
        images=tuple(read_picture(json.loads(image)) for image in values["images"]),
    )
