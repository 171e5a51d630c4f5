"""Samples as the Parquet files that verl's `RLHFDataset` reads.

The prompt contains only the question: the environment writes the real prompt when the rollout
starts, so that one file serves every system. The whole sample is stored as JSON in the column
`sample`, because maps with arbitrary keys (boxes by page, `extra`) do not survive Parquet structs.
"""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample

AGENT_NAME = "docagent"
"""The agent loop that verl starts for every row."""
UNREADABLE = (pa.lib.ArrowException, OSError, ValueError)
"""The errors that may be raised when a damaged file is read."""

_STRING = pa.string()

SCHEMA = pa.schema(
    {
        "prompt": pa.list_(pa.struct({"role": _STRING, "content": _STRING})),
        "data_source": _STRING,
        "agent_name": _STRING,
        "reward_model": pa.struct({"style": _STRING, "ground_truth": pa.list_(_STRING)}),
        "extra_info": pa.struct({"index": pa.int64(), "split": _STRING, "question_id": _STRING}),
        "sample": _STRING,
    }
)
"""The columns and types of a file; further columns are ignored."""


def write_parquet(samples: Iterable[Sample], path: str | Path) -> Path:
    """Write samples atomically in the given order; `extra_info.index` numbers them from 0.

    Raises:
        UserError: there is nothing to write, or a sample cannot be written as JSON.
    """
    listed = list(samples)
    if not listed:
        raise UserError(
            f"{path}: no samples to write; a Parquet file for training needs at least one"
        )
    return atomic_write(path, parquet_bytes(listed))


def parquet_bytes(samples: Iterable[Sample]) -> bytes:
    """Return the contents of the file that `write_parquet` writes; equal samples, equal bytes."""
    rows = [_row(index, sample) for index, sample in enumerate(samples)]
    buffer = io.BytesIO()
    write_table(pa.Table.from_pylist(rows, schema=SCHEMA), buffer)
    return buffer.getvalue()


def write_table(table: pa.Table, where: Path | BinaryIO) -> None:
    """Write a table with compression and a checksum for each page of a column."""
    pq.write_table(table, where, compression="zstd", write_page_checksum=True)


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a table and verify its checksums, since corrupted bytes may be a valid sample.

    Raises:
        One of `UNREADABLE`: the file is damaged or not a Parquet file.
    """
    table = pq.read_table(path, columns=columns, page_checksum_verification=True)
    # texts and column names that are not UTF-8 would otherwise fail only when they are decoded
    table.validate(full=True)
    for column in table.schema:
        str(column)
    return table


def read_parquet(path: str | Path) -> list[Sample]:
    """Read the samples of a file written by `write_parquet`.

    Raises:
        UserError: the file is missing or not Parquet, a column is missing or of the wrong type, or
            a row contains no sample; the message names the file and the column or row.
    """
    samples = []
    for row, text in enumerate(_load(Path(path)).column("sample").to_pylist()):
        try:
            samples.append(Sample.from_json(text or ""))
        except UserError as error:
            raise UserError(f"{path}: row {row}: {error}") from error
    return samples


def read_samples(path: Path) -> list[Sample]:
    """Read the samples of a `.parquet` file, or the questions of any other file."""
    return read_parquet(path) if path.suffix == ".parquet" else read_questions(path)


def _row(index: int, sample: Sample) -> dict[str, Any]:
    return {
        "prompt": [{"role": "user", "content": sample.question}],
        "data_source": sample.dataset,
        "agent_name": AGENT_NAME,
        "reward_model": {"style": "rule", "ground_truth": list(sample.answers)},
        "extra_info": {
            "index": index,
            "split": sample.split.value,
            "question_id": sample.question_id,
        },
        "sample": sample.to_json(),
    }


def _load(path: Path) -> pa.Table:
    if not path.is_file():
        raise UserError(f"{path}: no such file; make one with `docagent-rl data convert`")
    try:
        table = read_table(path)
    except UNREADABLE as error:
        raise UserError(f"{path}: not a Parquet file ({error})") from error
    for column in SCHEMA:
        if not _compatible(table.schema, column):
            raise UserError(
                f"{path}: column {column.name!r} is missing or of another type than {column.type}; "
                "write the file with `docagent-rl data convert`"
            )
    return table


def _compatible(schema: pa.Schema | pa.StructType, expected: pa.Field) -> bool:
    """Return whether a schema has a field; large types, other item names and more fields are
    fine.
    """
    place = schema.get_field_index(expected.name)
    return place >= 0 and _holds(schema.field(place).type, expected.type)


def _holds(found: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_struct(expected):
        return pa.types.is_struct(found) and all(_compatible(found, inner) for inner in expected)
    if pa.types.is_list(expected):
        return hasattr(found, "value_type") and _holds(found.value_type, expected.value_type)
    return str(found).removeprefix("large_") == str(expected)
