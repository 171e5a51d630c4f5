"""Damaged files of questions, through `docagent-rl data` and what the trainer reads."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
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
from tests.faults.campaign import Campaign, Case
from tests.faults.corpus import TEXTS, make_store
from tests.faults.mutate import Damage, damage, pick
from tests.faults.verdict import Fault, Outcome, Verdict, bad, judged, refused, right

_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**30, "", " ", "\ud800", "a\x00b", "\x1b[2J", "x" * 100_000, [], {}, [None],
    ["\udfff"],
    [[]], {"a": 1}, [1, "a"], [0], [10**9], [1, 1], "nowhere", "../../etc/passwd", "animals.pdf", "NaN",
)  # fmt: skip
_LINES = (
    b"[" * 100_000, b'{"a":' * 50_000, b"null", b"[]", b'"text"', b"{}", b"{,}", b"\xff\xfe", b"\x00",
    b"\xef\xbb\xbf{}",
    b'{"doc_id": "animals", "doc_id": "numbers", "question": "q", "answers": ["a"]}', b"1e999",
    b'{"doc_id": "animals", "question": "q", "answers": ["a"], "evidence_pages": [NaN]}',
    b'{"doc_id": "animals", "question": "q", "answers": ["a"], "evidence_pages": [' + b"9" * 5_000 + b"]}",
    b'{"doc_id": "animals", "question": "half \\ud83d", "answers": ["a"]}',
)  # fmt: skip
_COLUMN_TYPES = (pa.string(), pa.int64(), pa.list_(pa.string()), pa.binary(), pa.null(), pa.float32())


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


def attempt(prepared: _Prepared, cases: Sequence[Case], folder: Path) -> list[Verdict]:
    kinds = (_parquet_bytes, _parquet_columns, _parquet_records, _jsonl_bytes, _jsonl_values, _jsonl_lines)
    verdicts = []
    for case in cases:
        place = folder / str(case.number)
        place.mkdir()
        random = case.random()
        verdicts.append(random.choice(kinds)(prepared, random, place))
    return verdicts


def _parquet_bytes(prepared: _Prepared, random: Random, folder: Path) -> Verdict:
    kind = pick(random)
    path = folder / "train.parquet"
    path.write_bytes(damage(prepared.parquet, kind, random))
    return judged(lambda: _parquet(prepared, path, f"parquet, {kind}", prepared.records), str(path))


def _parquet_columns(prepared: _Prepared, random: Random, folder: Path) -> Verdict:
    """Columns that are gone, of another type, there twice or without values."""
    table = pq.read_table(io.BytesIO(prepared.parquet))
    column = random.randrange(table.num_columns)
    name = table.column_names[column]
    how = random.choice(("gone", "typed", "twice", "null", "empty", "no rows"))
    if how == "gone":
        table = table.drop_columns([name])
    elif how == "typed":
        table = table.set_column(column, name, pa.nulls(len(table)).cast(random.choice(_COLUMN_TYPES)))
    elif how == "twice":
        table = table.append_column(name, table.column(name))
    elif how == "null":
        table = table.set_column(column, name, pa.nulls(len(table), table.schema.field(name).type))
    elif how == "empty":
        table = table.select([])
    else:
        table = table.slice(0, 0)
    path = folder / "train.parquet"
    pq.write_table(table, path)
    return judged(lambda: _parquet(prepared, path, f"column {name} {how}", None), str(path))


def _parquet_records(prepared: _Prepared, random: Random, folder: Path) -> Verdict:
    """Records with a value that is not one, written past all checks."""
    rows = pq.read_table(io.BytesIO(prepared.parquet)).to_pylist()
    row = random.choice(rows)
    done, row["record"] = _edited(row["record"], random)
    path = folder / "train.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return judged(lambda: _parquet(prepared, path, done, None), str(path))


def _jsonl_bytes(prepared: _Prepared, random: Random, folder: Path) -> Verdict:
    kind = pick(random)
    return _jsonl(
        prepared, folder, damage(prepared.jsonl, kind, random), f"jsonl, {kind}", kind is Damage.NONE
    )


def _jsonl_values(prepared: _Prepared, random: Random, folder: Path) -> Verdict:
    lines = prepared.jsonl.splitlines()
    number = random.randrange(len(lines))
    done, text = _edited(lines[number].decode(), random)
    lines[number] = text.encode()
    return _jsonl(prepared, folder, b"\n".join(lines), done)


def _jsonl_lines(prepared: _Prepared, random: Random, folder: Path) -> Verdict:
    lines = prepared.jsonl.splitlines()
    line = random.choice(_LINES)
    lines.insert(random.randrange(len(lines) + 1), line)
    return _jsonl(prepared, folder, random.choice((b"\n", b"\r\n")).join(lines), f"line {line[:30]!r}")


def _edited(text: str, random: Random) -> tuple[str, str]:
    """A record as JSON with one field gone, or of another value."""
    data = json.loads(text)
    place = data["extra"] if random.random() < 0.2 else data
    name = random.choice([*place, "unknown", "page_ids"])
    value = random.choice(_VALUES)
    if random.random() < 0.15:
        place.pop(name, None)
    else:
        place[name] = value
    return f"{name}: {value!r:.40}", json.dumps(data)


def _parquet(prepared: _Prepared, path: Path, done: str, expected: list[Record] | None) -> Verdict:
    report = validate_parquet(path, store=prepared.store)
    commanded = _commanded(["validate", str(path), "--store", str(prepared.store.path)], str(path))
    if commanded.fault or (commanded.outcome is Outcome.RIGHT) is not report.ok:
        return commanded if commanded.fault else bad(Fault.WRONG, f"{done}: the command says {commanded}")
    shown = _commanded(["show", str(path)], str(path))
    if shown.fault:
        return shown
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


def _jsonl(prepared: _Prepared, folder: Path, data: bytes, done: str, unchanged: bool = False) -> Verdict:
    path, out = folder / "questions.jsonl", folder / "out.parquet"
    path.write_bytes(data)
    store = ["--store", str(prepared.store.path)]

    def tried() -> Verdict:
        report = validate_jsonl(path, store=prepared.store)
        for command in (["validate", str(path), *store], ["convert", str(path), "--out", str(out), *store]):
            commanded = _commanded(command, str(path))
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
        return _read(prepared, out, done, prepared.records if unchanged else None)

    return judged(tried, str(path))


def _commanded(arguments: list[str], *names: str) -> Verdict:
    """What a command does: it prints its errors, and its status tells right from wrong."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    error = result.exception

    def done() -> Verdict:
        if error is not None and not isinstance(error, SystemExit | typer.Exit):
            raise error
        if result.exit_code:
            return refused(result.output[:3000] or "no message", *names)
        return right()

    return judged(done, *names)


CAMPAIGN = Campaign(
    name="data_files",
    what="Parquet and JSONL files of questions: bytes, columns, types, values, surrogates, ids, nesting",
    short=60,
    long=1_200,
    prepare=prepare,
    attempt=attempt,
    batch=20,
    seconds=10,
    memory_gib=2,
)
