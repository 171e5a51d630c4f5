"""Training rows for supervised fine-tuning: token sequences and masks from ledgers, in Parquet
files.
"""

import hashlib
import io
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.envs.images import Picture
from docagent_rl.lab.sft.ledgers import PlacedPicture, read_picture
from docagent_rl.rollout.images import EncodedImage
from docagent_rl.rollout.ledger import TurnLedger
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.parquet import UNREADABLE

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
"""Rows per row group, which are read together: 6 MB if they have 40,000 tokens each."""

_TOKENIZER = b"docagent_tokenizer"


@dataclass(frozen=True, slots=True)
class SftRow:
    """One context of one trajectory, `t` tokens."""

    question_id: str
    system: str
    row: int
    """Index of the context in its trajectory."""
    reward: float
    """Reward of the whole trajectory, for filters."""
    input_ids: tuple[int, ...]
    """`(t,)`, prompt and response."""
    loss_mask: tuple[int, ...]
    """`(t,)`, 1 exactly on what the policy wrote, or a script in its place."""
    images: tuple[Picture, ...]
    """Images whose placeholders are in `input_ids`, in order."""


def sft_rows(trajectory: Trajectory, ledgers: Sequence[TurnLedger]) -> list[SftRow]:
    """Return the rows of a trajectory's ledgers, the same as in a training step of the trainer."""
    rows = [ledger.row() for ledger in ledgers if ledger.sampled]
    return [
        SftRow(
            question_id=str(trajectory.sample["question_id"]),
            system=trajectory.system,
            row=number,
            reward=trajectory.reward,
            input_ids=(*row.prompt_ids, *row.response_ids),
            loss_mask=(*[0] * len(row.prompt_ids), *row.response_mask),
            images=tuple(
                image.ref for image in row.images if isinstance(image, EncodedImage | PlacedPicture)
            ),
        )
        for number, row in enumerate(rows)
    ]


def tokenizer_digest(tokenizer: Any) -> str:
    """Return the SHA-256 of a tokenizer's vocabulary: equal digests give ids the same meaning."""
    return hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()


def write_sft(rows: Iterable[SftRow], path: str | Path, tokenizer: Any) -> Path:
    """Write rows atomically, in the given order, for models with the vocabulary of `tokenizer`.

    Raises:
        UserError: there is nothing to write.
    """
    return atomic_write(path, file_pieces(rows, tokenizer_digest(tokenizer), str(path)))


def file_pieces(rows: Iterable[SftRow], digest: str, name: str = "rows") -> Iterator[bytes]:
    """Yield the bytes of a file, `GROUP` rows at a time; the same rows give the same bytes.

    `digest` is that of the vocabulary (`tokenizer_digest`); `name` is the file's, for the message.

    Raises:
        UserError: there is no row.
    """
    sink = _Pieces()
    remaining = iter(rows)
    schema = SCHEMA.with_metadata({_TOKENIZER: digest.encode()})
    empty = True
    with pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True) as writer:
        while group := list(islice(remaining, GROUP)):
            empty = False
            values = [{name: getattr(row, name) for name in SCHEMA.names} for row in group]
            for each in values:
                each["images"] = [json.dumps(image.to_dict()) for image in each["images"]]
            writer.write_table(pa.Table.from_pylist(values, schema=schema))
            yield sink.take()
        if empty:
            raise UserError(
                f"{name}: no rows to write; supervised training needs at least one trajectory"
            )
    yield sink.take()


class SftFile:
    """The rows of a file by number; keeps `GROUP` of them in memory at a time.

    `digest` is that of the vocabulary with which the file must have been made; `None` skips the
    check.

    Raises:
        UserError: the file is missing, damaged, of another kind, or was made with another
            vocabulary.
    """

    def __init__(self, path: str | Path, digest: str | None = None) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise UserError(f"{self.path}: there is no such file of supervised rows")
        with self._reading():
            file = self._open()
            schema = file.schema_arrow
        if not schema.equals(SCHEMA):
            expected = ", ".join(SCHEMA.names)
            raise UserError(
                f"{self.path}: not a file of supervised rows; expected the columns {expected}"
            )
        made_with = (schema.metadata or {}).get(_TOKENIZER, b"").decode()
        if digest is not None and made_with != digest:
            raise UserError(
                f"{self.path}: made with the vocabulary of another model; export the trajectories "
                "again"
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
        """Return a row by its number, from 0.

        Raises:
            UserError: its part of the file is damaged.
        """
        group = next(n for n, end in enumerate(self._starts[1:]) if index < end)
        if self._group is None or self._group[0] != group:
            self._group = (group, self._read(group))
        (values,) = self._group[1].slice(index - self._starts[group], 1).to_pylist()
        ids = tuple(values.pop("input_ids"))
        mask = tuple(values.pop("loss_mask"))
        images = tuple(read_picture(json.loads(image)) for image in values.pop("images"))
        return SftRow(**values, input_ids=ids, loss_mask=mask, images=images)

    def lengths(self) -> np.ndarray:
        """Return the number of tokens of each row, `(rows,)` int64."""
        parts = [self._read(n, ["input_ids"])["input_ids"] for n in range(len(self._starts) - 1)]
        found = pa.chunked_array(
            [part.combine_chunks().value_lengths() for part in parts], pa.int32()
        )
        return found.to_numpy().astype("int64")

    def pictures(self) -> Iterator[Picture]:
        """Yield every image of every row, in order."""
        for group in range(len(self._starts) - 1):
            for images in self._read(group, ["images"])["images"].to_pylist():
                yield from (read_picture(json.loads(image)) for image in images)

    def _read(self, group: int, columns: list[str] | None = None) -> pa.Table:
        with self._reading():
            table = self._open().read_row_group(group, columns=columns, use_threads=False)
            table.validate(full=True)
            return table

    def _open(self) -> pq.ParquetFile:
        # opened each time, since the workers of a data loader are forks that must not share a
        # handle
        return pq.ParquetFile(self.path, page_checksum_verification=True)

    @contextmanager
    def _reading(self) -> Generator[None]:
        try:
            yield
        except UNREADABLE as error:
            raise UserError(f"{self.path}: not a Parquet file ({error})") from error


class _Pieces(io.BytesIO):
    """A buffer from which a writer's output is taken piece by piece."""

    given = 0

    def tell(self) -> int:
        return self.given + super().tell()

    def take(self) -> bytes:
        part = self.getvalue()
        self.given += len(part)
        self.seek(0)
        self.truncate()
        return part
