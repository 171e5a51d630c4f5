"""Questions as people write them: one JSON object per line, four fields, everything else derived.

`docs/own_data.md` describes the fields. The question id is a hash of document and question, so it
does not change when lines move or an answer is corrected.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import composed
from docagent_rl.samples.sample import (
    FIELDS,
    Sample,
    as_whole,
    decode_object,
    read_fields,
    type_problems,
)

DATASET = "questions"
"""The default dataset of questions."""
_TABLES = frozenset({".csv", ".tsv", ".xlsx", ".xls", ".ods"})


@dataclass(slots=True)
class Questions:
    """The questions of a file."""

    path: Path
    rows: int = 0
    """The number of lines that are not blank."""
    samples: list[tuple[str, Sample]] = field(default_factory=list)
    """The questions that could be parsed, with their location (file and line)."""
    problems: list[str] = field(default_factory=list)
    """The faults of the others: one sentence each, with its location."""


def scan_questions(path: str | Path) -> Questions:
    """Parse a file of questions and collect all problems of all lines."""
    source = Path(path)
    if not source.is_file():
        raise UserError(
            f"{source}: no such file; `docagent-rl data template --out {source}` writes an example"
        )
    if (end := source.suffix.lower()) in _TABLES:
        raise UserError(
            f"{source}: {end} files are not supported, only JSON (one object per line) and "
            "Parquet: export it as CSV in UTF-8 with the field names in its first line, then run "
            "`python -c 'import csv, json, sys; [print(json.dumps(row)) for row in "
            "csv.DictReader(sys.stdin)]' < FILE.csv > FILE.jsonl`"
        )
    try:
        # some editors begin a file with a byte order mark
        text = source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{source}: not UTF-8 text ({error}); save it as UTF-8. The name of a Parquet file "
            "must end in .parquet"
        ) from error
    found = Questions(source)
    # do not use splitlines(): a string may contain U+2028 and the like
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            _read_line(found, number, line)
    return found


def read_questions(path: str | Path) -> list[Sample]:
    """Read the questions of a file; raises a `UserError` that lists the invalid lines."""
    found = scan_questions(path)
    if found.problems:
        raise UserError("\n".join(found.problems[:50]))
    return [sample for _, sample in found.samples]


def parse_question(data: Mapping[str, Any], *, row: int = 0) -> tuple[Sample | None, list[str]]:
    """Parse a question from a decoded JSON object; `row` is its number in the file, from 0.

    Returns:
        The sample, or `None` if there are problems, and the problems, one sentence each.
    """
    fields = ", ".join(FIELDS)
    problems = [
        f"unknown field {key!r}: fields are {fields}; put your own under 'extra'"
        for key in data
        if key not in FIELDS
    ]
    values = {name: value for name, value in data.items() if name in FIELDS}
    values |= {name: read(values[name]) for name, read in _READERS.items() if name in values}
    answers = values.setdefault("answers", [])
    if values.get("answerable", True) is True and not any(
        str(each).strip() for each in _listed(answers)
    ):
        problems.append(
            "field 'answers' is empty: give at least one answer, or \"answerable\": false if the "
            "document does not answer the question"
        )
    name = _question_id(values.get("doc_id"), values.get("question"))
    values = {"question_id": name, "dataset": DATASET, "split": "train", **values}
    usual = {"gold": answers, "num_pages": None, "native_id": values["question_id"], "row": row}
    extra = values.get("extra") or {}
    if isinstance(extra, Mapping):
        values["extra"] = {**usual, **extra}
    try:
        sample = read_fields(values)
    except ValidationError as error:
        return None, problems + type_problems(error)
    except UserError as error:
        return None, [*problems, str(error)]
    return (None, problems) if problems else (sample, [])


def _read_line(found: Questions, number: int, line: str) -> None:
    where = f"{found.path}:{number}"
    row = found.rows
    found.rows = found.rows + 1
    try:
        sample, problems = parse_question(decode_object(line), row=row)
    except UserError as error:
        sample = None
        problems = [str(error)]
    found.problems += [f"{where}: {problem}" for problem in problems]
    if sample is not None:
        found.samples.append((where, sample))


def _question_id(doc_id: Any, question: Any) -> str:
    content = json.dumps([doc_id, " ".join(str(question).split())], ensure_ascii=False)
    return "q-" + hashlib.sha256(content.encode()).hexdigest()[:16]


def _doc_id(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    path = PurePosixPath(value.strip().replace("\\", "/"))
    # ids are paths below the ingested folder; of a path elsewhere only the file name is kept
    elsewhere = (
        path.is_absolute() or ".." in path.parts or path.parts[:1] == (PureWindowsPath(path).drive,)
    )
    name = path.name if elsewhere or not path.parts else str(path)
    return composed(name[: -len(".pdf")] if name.lower().endswith(".pdf") else name)


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, a single value as a list, or an empty list for `None`."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _answers(value: Any) -> list[Any]:
    """Return the answers as texts; numbers are written as in JSON."""
    return [json.dumps(item) if type(item) in (int, float) else item for item in _listed(value)]


def _pages(value: Any) -> list[Any]:
    """Return the distinct pages in order; with an invalid page the list is unchanged, for a later
    check to reject.
    """
    found = [as_whole(item) for item in _listed(value)]
    return sorted(set(found)) if all(type(page) is int for page in found) else found


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "question_id": lambda value: str(value) if type(value) is int else value,
    "doc_id": _doc_id,
    "answers": _answers,
    "evidence_pages": _pages,
    "evidence_sources": lambda value: [value] if isinstance(value, str) else value,
}
