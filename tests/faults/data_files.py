"""Damaged files of questions, through `docagent-rl data` and what the trainer reads."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from typer.testing import CliRunner

from docagent_rl.commands.data import app
from docagent_rl.documents import DocumentStore
from docagent_rl.records.parquet import parquet_bytes, read_parquet, validate_parquet
from docagent_rl.records.record import Record, Split
from docagent_rl.records.validation import validate_jsonl
from tests.faults.campaign import Campaign, Case, one_by_one
from tests.faults.corpus import TEXTS, make_store
from tests.faults.mutate import Damage, damage
from tests.faults.verdict import Fault, Outcome, Verdict, bad, judged, refused, right

_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**30, "", " ", "\ud800", "a\x00b", "\x1b[2J", "x" * 100_000, [], {}, [None],
    ["\udfff"], [[]], {"a": 1}, [1, "a"], [0], [10**9], [1, 1], "nowhere", "../../etc/passwd", "animals.pdf",
    "NaN", ...,
)  # fmt: skip
"""Of fields of a record; `...`: the field is taken out."""
_LINES = (
    b"[" * 100_000, b'{"a":' * 50_000, b"null", b"[]", b'"text"', b"{}", b"{,}", b"\xff\xfe", b"\x00",
    b"1e999", b"\xef\xbb\xbf{}",
    b'{"doc_id": "animals", "doc_id": "numbers", "question": "q", "answers": ["a"]}',
    b'{"doc_id": "animals", "question": "q", "answers": ["a"], "evidence_pages": [NaN]}',
    b'{"doc_id": "animals", "question": "q", "answers": ["a"], "evidence_pages": [' + b"9" * 5_000 + b"]}",
    b'{"doc_id": "animals", "question": "half \\ud83d", "answers": ["a"]}',
)  # fmt: skip
_TYPES = (pa.string(), pa.int64(), pa.list_(pa.string()), pa.binary(), pa.null(), pa.float32())
_COLUMNS: dict[str, Callable[[pa.Table, int, Random], pa.Table]] = {
    "gone": lambda table, column, _: table.remove_column(column),
    "of another type": lambda table, column, random: _emptied(table, column, random.choice(_TYPES)),
    "there twice": lambda table, column, _: table.append_column(table.field(column), table.column(column)),
    "without values": lambda table, column, _: _emptied(table, column, table.field(column).type),
    "all gone": lambda table, *_: table.select([]),
    "without rows": lambda table, *_: table.slice(0, 0),
}


def _emptied(table: pa.Table, column: int, kind: pa.DataType) -> pa.Table:
    return table.set_column(column, table.column_names[column], pa.nulls(len(table)).cast(kind))


@dataclass(frozen=True, slots=True)
class _Prepared:
    store: DocumentStore
    records: list[Record]
    parquet: bytes
    jsonl: bytes


def prepare(folder: Path) -> _Prepared:
    records = [
        Record(
            question_id=f"{doc_id}-{number}",
            dataset="synthetic",
            split=Split.TRAIN,
            doc_id=doc_id,
            question=f"How many letters has page {number} of {doc_id}?",
            answers=(str(len(text)), f"{len(text)} letters"),
            evidence_pages=(number,),
            evidence_boxes={number: ((0.1, 0.2, 0.5, 0.25),)},
            extra={"gold": "41", "num_pages": len(texts), "native_id": 7, "row": number},
        )
        for doc_id, texts in TEXTS.items()
        for number, text in enumerate(texts, start=1)
    ]
    jsonl = "".join(record.to_json() + "\n" for record in records).encode()
    return _Prepared(make_store(folder / "made", TEXTS), records, parquet_bytes(records), jsonl)


KINDS = (*Damage, *_COLUMNS, *_VALUES, *_LINES)
"""Bytes, columns, values and lines; the two formats take turns where both can have it."""


def attempt(prepared: _Prepared, case: Case, folder: Path) -> Verdict:
    kind, random = KINDS[case.number // 2 % len(KINDS)], case.random()
    parquet = case.number % 2 == 0
    whole = kind is Damage.NONE
    if isinstance(kind, Damage):
        data = damage(prepared.parquet if parquet else prepared.jsonl, kind, random)
    elif kind in tuple(_COLUMNS):
        table = pq.read_table(io.BytesIO(prepared.parquet))
        parquet, data = True, _written(_COLUMNS[kind](table, random.randrange(table.num_columns), random))
    elif isinstance(kind, bytes) and kind in _LINES:
        lines = prepared.jsonl.splitlines()
        lines.insert(random.randrange(len(lines) + 1), kind)
        parquet, data = False, random.choice((b"\n", b"\r\n")).join(lines)
    elif parquet:
        rows = pq.read_table(io.BytesIO(prepared.parquet)).to_pylist()
        row = random.choice(rows)
        row["record"] = _edited(row["record"], kind, random)
        data = _written(pa.Table.from_pylist(rows))
    else:
        lines = prepared.jsonl.splitlines()
        number = random.randrange(len(lines))
        lines[number] = _edited(lines[number].decode(), kind, random).encode()
        data = b"\n".join(lines)
    path = folder / ("train.parquet" if parquet else "questions.jsonl")
    path.write_bytes(data)
    tried = _parquet if parquet else _jsonl
    expected = prepared.records if whole or (parquet and isinstance(kind, Damage)) else None
    return judged(lambda: tried(prepared, path, f"{kind!r:.40}", expected), str(path))


def _written(table: pa.Table) -> bytes:
    """Past all checks."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _edited(text: str, value: Any, random: Random) -> str:
    """A record as JSON with one field gone, or of another value."""
    data = json.loads(text)
    place = data["extra"] if random.random() < 0.2 else data
    name = random.choice([*place, "unknown", "page_ids"])
    if value is ...:
        place.pop(name, None)
    else:
        place[name] = value
    return json.dumps(data)


def _parquet(prepared: _Prepared, path: Path, done: str, expected: list[Record] | None) -> Verdict:
    report = validate_parquet(path, store=prepared.store)
    commands = ["validate", str(path), "--store", str(prepared.store.path)], ["show", str(path)]
    validated, shown = (_commanded(command, path) for command in commands)
    if fault := next((each for each in (validated, shown) if each.fault), None):
        return fault
    if (validated.outcome is Outcome.RIGHT) is not report.ok:
        return bad(Fault.WRONG, f"{done}: the command says {validated}")
    if not report.ok:
        return refused("\n".join(report.problems)[:3000], str(path))
    return _read(prepared, path, done, expected)


def _read(prepared: _Prepared, path: Path, done: str, expected: list[Record] | None) -> Verdict:
    """Valid records are what they were, or fit the store."""
    records = read_parquet(path)
    if expected is not None and records != expected:
        return bad(Fault.WRONG, f"{done}: other records are read")
    for record in records:
        record.question.encode()
        for doc_id, page in record.gold_pages:
            prepared.store.document(doc_id).page(page).text()
    return right(done)


def _jsonl(prepared: _Prepared, path: Path, done: str, expected: list[Record] | None) -> Verdict:
    out, store = path.with_name("out.parquet"), ["--store", str(prepared.store.path)]
    report = validate_jsonl(path, store=prepared.store)
    for command in (["validate", str(path), *store], ["convert", str(path), "--out", str(out), *store]):
        commanded = _commanded(command, path)
        if commanded.fault:
            return commanded
        if (commanded.outcome is Outcome.RIGHT) is not report.ok:
            return bad(Fault.WRONG, f"{done}: {command[0]} says {commanded}, the check {report}")
    if report.ok is not out.exists():
        return bad(Fault.LEFTOVER, f"{done}: {out} is there: {out.exists()}")
    if not report.ok:
        return refused("\n".join(report.problems)[:3000], str(path))
    if not validate_parquet(out, store=prepared.store).ok:
        return bad(Fault.WRONG, f"{done}: what was converted is not valid")
    return _read(prepared, out, done, expected)


def _commanded(arguments: list[str], path: Path) -> Verdict:
    """What a command does: it prints its errors, and its status tells right from wrong."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    error = result.exception
    if error is not None and not isinstance(error, SystemExit | typer.Exit):
        raise error
    return refused(result.output[:3000] or "no message", str(path)) if result.exit_code else right()


CAMPAIGN = Campaign(
    name="data_files",
    what="Parquet and JSONL files of questions: bytes, columns, types, values, surrogates, ids, nesting",
    short=2 * len(KINDS),
    long=1_200,
    prepare=prepare,
    attempt=one_by_one(attempt),
    batch=20,
)
