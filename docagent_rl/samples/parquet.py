"""Samples as the Parquet files that verl's `RLHFDataset` reads.

The prompt holds the bare question: the environment writes the real prompt when the rollout starts, so that
one file serves every system. The whole sample travels as JSON in the column `sample`, because maps with free
keys (boxes by page, `extra`) do not survive Parquet structs.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.samples.questions import Questions, read_questions
from docagent_rl.samples.sample import Sample

AGENT_NAME = "docagent"
"""The agent loop that verl starts for every row."""
UNREADABLE = (pa.lib.ArrowException, OSError, ValueError)
"""The errors that reading a damaged file raises."""

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
"""Columns and types of a file; further columns are allowed and ignored."""


def write_parquet(samples: Iterable[Sample], path: str | Path) -> Path:
    """Write samples atomically in the order given; `extra_info.index` numbers them from 0.

    Raises:
        UserError: there is nothing to write, or a sample cannot be written as JSON.
    """
    listed = list(samples)
    if not listed:
        raise UserError(f"{path}: no samples to write; a Parquet file for training needs at least one")
    return atomic_write(path, parquet_bytes(listed))


def parquet_bytes(samples: Iterable[Sample]) -> bytes:
    """Return the file that `write_parquet` writes; the same samples give the same bytes."""
    rows = [_row(index, sample) for index, sample in enumerate(samples)]
    buffer = io.BytesIO()
    write_table(pa.Table.from_pylist(rows, schema=SCHEMA), buffer)
    return buffer.getvalue()


def write_table(table: pa.Table, where: Path | BinaryIO) -> None:
    """Write a table compressed, each page of a column with its checksum."""
    pq.write_table(table, where, compression="zstd", write_page_checksum=True)


def read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read a table, verifying the checksums that it has: changed bytes may well be another valid sample.

    Raises:
        One of `UNREADABLE`: it is damaged or no Parquet file.
    """
    table = pq.read_table(path, columns=columns, page_checksum_verification=True)
    table.validate(full=True)  # texts that are not UTF-8 are noticed by nobody before they are decoded
    for column in table.schema:
        str(column)  # names neither
    return table


def read_parquet(path: str | Path) -> list[Sample]:
    """Read the samples of a file written by `write_parquet`.

    Raises:
        UserError: the file is missing or no Parquet, a column is missing or of the wrong type, or a row holds
            no sample; the message names the file and the column or row.
    """
    samples = []
    for row, text in enumerate(_load(Path(path)).column("sample").to_pylist()):
        try:
            samples.append(Sample.from_json(text or ""))
        except UserError as error:
            raise UserError(f"{path}: row {row}: {error}") from error
    return samples


def read_samples(path: Path) -> list[Sample]:
    """Read the samples of a `.parquet` file, or the questions of another."""
    return read_parquet(path) if path.suffix == ".parquet" else read_questions(path)


def scan_parquet(path: str | Path) -> Questions:
    """Read a file's samples with their places, and find columns that are missing or contradict them.

    A file with wrong columns gets that one problem and no others.
    """
    source = Path(path)
    found = Questions(source)
    try:
        table, samples = _load(source), read_parquet(source)
    except UserError as error:
        found.problems.append(str(error))
        return found
    found.rows = len(samples)
    for number, (row, sample) in enumerate(zip(table.select(SCHEMA.names).to_pylist(), samples, strict=True)):
        place = f"{source}: row {number}"
        found.samples.append((place, sample))
        found.problems += [f"{place}: {problem}" for problem in _column_problems(row, sample)]
    return found


def _row(index: int, sample: Sample) -> dict[str, Any]:
    return {
        "prompt": [{"role": "user", "content": sample.question}],
        "data_source": sample.dataset,
        "agent_name": AGENT_NAME,
        "reward_model": {"style": "rule", "ground_truth": list(sample.answers)},
        "extra_info": {"index": index, "split": sample.split.value, "question_id": sample.question_id},
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
        if column.name not in table.column_names:
            raise UserError(f"{path}: column {column.name!r} is missing; expected type {column.type}")
        found = table.schema.field(column.name).type
        if not _compatible(found, column.type):
            raise UserError(
                f"{path}: column {column.name!r} has type {found}, expected {column.type}; "
                "write the file with `docagent-rl data convert`"
            )
    return table


def _compatible(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether `found` holds `expected`: large variants, other item names and more fields are fine."""
    if pa.types.is_struct(expected):
        return pa.types.is_struct(found) and all(
            found.get_field_index(inner.name) >= 0 and _compatible(found.field(inner.name).type, inner.type)
            for inner in expected
        )
    if pa.types.is_list(expected):
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
        return is_list and _compatible(found.value_type, expected.value_type)
    if pa.types.is_string(expected):
        return pa.types.is_string(found) or pa.types.is_large_string(found)
    return pa.types.is_integer(found)


def _column_problems(row: dict[str, Any], sample: Sample) -> list[str]:
    extra_info = row["extra_info"] or {}
    problems = []
    if not row["prompt"] or not all(message and message["content"] for message in row["prompt"]):
        problems.append("column 'prompt' holds no message")
    if not row["agent_name"]:
        problems.append(f"column 'agent_name' is empty, expected {AGENT_NAME!r} or an agent loop of your own")
    for column, found, expected in [
        ("data_source", row["data_source"], sample.dataset),
        ("extra_info.split", extra_info.get("split"), sample.split.value),
        ("extra_info.question_id", extra_info.get("question_id"), sample.question_id),
    ]:
        if found != expected:
            problems.append(f"column '{column}' is {found!r}, but the sample says {expected!r}")
    if extra_info.get("index") is None:
        problems.append("column 'extra_info.index' is null")
    return problems
