"""Questions as people write them: one JSON object a line, four fields, everything else derived.

```json
{"doc_id": "report.pdf", "question": "How many people work there?", "answers": "41", "evidence_pages": [3]}
```

- `doc_id`: the id in the store, or the name of the file; a folder before it and `.pdf` are dropped. Also
  `document`, `doc`, `file`, `filename`, `file_name`, `pdf`.
- `question`.
- `answers`: a string or a number, or a list of them (alternatives, or with `"answer_format": "list"` the
  items). Left out or empty with `"answerable": false` alone. Also `answer`.
- `evidence_pages`: a page from 1, or a list of them; optional, but rewards for retrieval need it. Also
  `evidence_page`, `gold_pages`, `gold_page`, `pages`, `page`.

All other fields of `Sample` may be given. The question id is a hash of document and question, so it stays
when lines move or an answer is mended. Keys that are no field go to `extra`, unless they look like one
misspelt.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import lone_surrogate
from docagent_rl.samples import fields
from docagent_rl.samples.sample import REQUIRED_EXTRA, Sample, Split

TEMPLATE = """\
{"doc_id": "report.pdf", "question": "How many people work for the company?", "answers": "1,204", "evidence_pages": [3]}
{"doc_id": "report.pdf", "question": "In which year was the plant in Lyon opened?", "answers": ["1998", "in 1998"], "evidence_pages": [5, 12]}
{"doc_id": "manual.pdf", "question": "Which three colours does the status light show?", "answers": ["red", "yellow", "green"], "answer_format": "list", "evidence_pages": [7]}
{"doc_id": "manual.pdf", "question": "What does the device cost?", "answerable": false}
"""  # noqa: E501 - lines of a file
"""An example of a file: an answer, alternatives, a list, and a question that the document does not answer."""

DATASET = "questions"
"""The dataset of questions that name none."""

_ALIASES = {
    "doc_id": ("document", "doc", "file", "filename", "file_name", "pdf"),
    "answers": ("answer",),
    "evidence_pages": ("evidence_page", "gold_pages", "gold_page", "pages", "page"),
    "question_id": ("id", "qid"),
    "evidence_boxes": ("evidence_box",),
    "evidence_sources": ("evidence_source",),
}
"""Other names of fields. Case, `_`, `-` and spaces make no difference: `docId` is `doc_id`."""

_ALIKE = 0.8
"""Similarity from which an unknown key is taken for a field misspelt (`difflib`)."""


@dataclass(slots=True)
class Questions:
    """The questions of a file."""

    path: Path
    rows: int = 0
    """Lines that are not blank."""
    samples: list[tuple[int, Sample]] = field(default_factory=list)
    """Questions that could be read, with the number of their line."""
    problems: list[str] = field(default_factory=list)
    """Sentences on what is wrong with the others, each with file and line."""


def scan_questions(path: str | Path) -> Questions:
    """Read a file of questions; every problem of every line is found."""
    source = Path(path)
    if not source.is_file():
        raise UserError(
            f"{source}: no such file; `docagent-rl data template --out {source}` writes an example"
        )
    try:
        # some editors begin a file with a byte order mark
        text = source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{source}: not UTF-8 text ({error}); save it as UTF-8. Parquet files end in .parquet"
        ) from error
    found = Questions(source)
    # not splitlines(): a string may hold U+2028 and the like
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            _read_line(found, number, line)
    return found


def read_questions(path: str | Path) -> list[Sample]:
    """Read the questions of a file; a `UserError` lists the lines that are none."""
    found = scan_questions(path)
    if found.problems:
        raise UserError("\n".join(found.problems[:50]))
    return [sample for _, sample in found.samples]


def parse_question(data: Mapping[str, Any], *, row: int = 0) -> tuple[Sample | None, list[str]]:
    """Read a question, number `row` of its file from 0, from a decoded JSON object.

    Returns:
        The sample, `None` when there are problems; and the problems, one sentence each.
    """
    named, unknown, problems = _named(data)
    extra, more = _extra(named.pop("extra", None), unknown)
    problems += more
    values: dict[str, Any] = {}
    for name, value in named.items():
        try:
            values[name] = _READERS.get(name, fields.read)(name, value)
        except UserError as error:
            problems.append(str(error))
    problems += [f"field '{name}' is missing" for name in ("doc_id", "question") if name not in named]
    unanswered = values.get("answerable", True) is True and not values.get("answers")
    if unanswered and ("answers" not in named or "answers" in values):
        state = "empty" if "answers" in values else "missing"
        problems.append(
            f"field 'answers' is {state}: give at least one, or \"answerable\": false where the document has "
            "no answer"
        )
    if problems:
        return None, problems
    name = _question_id(values["doc_id"], values["question"])
    values = {"question_id": name, "dataset": DATASET, "split": Split.TRAIN, "answers": (), **values}
    usual = {
        "gold": list(values["answers"]),
        "num_pages": None,
        "native_id": values["question_id"],
        "row": row,
    }
    extra = {**{key: usual[key] for key in REQUIRED_EXTRA if key not in extra}, **extra}
    try:
        return Sample(**values, extra=extra), []
    except UserError as error:
        return None, [str(error)]


def _read_line(found: Questions, number: int, line: str) -> None:
    where = f"{found.path}:{number}"
    row, found.rows = found.rows, found.rows + 1
    try:
        sample, problems = parse_question(_decode(line), row=row)
    except UserError as error:
        sample, problems = None, [str(error)]
    found.problems += [f"{where}: {problem}" for problem in problems]
    if sample is not None:
        found.samples.append((number, sample))


def _decode(line: str) -> Mapping[str, Any]:
    try:
        data = json.loads(line, object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        # JSONDecodeError is a ValueError, and so are integers of thousands of digits
        raise UserError(f"not valid JSON: {error}") from error
    if not isinstance(data, Mapping):
        hint = "; a file of questions has one object a line, and no brackets around them"
        raise UserError(f"a question must be a JSON object, found {type(data).__name__}{hint}")
    if half := lone_surrogate(json.dumps(data, ensure_ascii=False)):
        raise UserError(
            f"a text holds half a character ({half}, a lone surrogate), which no file can hold: mend the text"
        )
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"the key {twice!r} occurs twice")
    return data


def _no_constant(name: str) -> None:
    raise UserError(f"{name} is not JSON; write null or a number")


def _named(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return values by field, values under other keys, and problems with keys."""
    named: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    origin: dict[str, str] = {}
    problems = []
    for key, value in data.items():
        name = _FIELDS.get(_plain(key))
        if name is None:
            if close := difflib.get_close_matches(_plain(key), _FIELDS, n=1, cutoff=_ALIKE):
                meant = f"did you mean {_FIELDS[close[0]]!r}? Put fields of your own under 'extra'"
                problems.append(f"unknown field {key!r}; {meant}")
            else:
                unknown[key] = value
        elif name in named:
            problems.append(f"{origin[name]!r} and {key!r} are the same field, {name!r}: give one of them")
        else:
            named[name], origin[name] = value, key
    return named, unknown, problems


def _extra(given: Any, unknown: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    try:
        extra = {} if given is None else fields.read("extra", given)
    except UserError as error:
        return {}, [str(error)]
    both = sorted(set(extra) & set(unknown))
    return {**extra, **unknown}, [f"key {key!r} is given twice, also under 'extra'" for key in both]


def _question_id(doc_id: str, question: str) -> str:
    content = json.dumps([doc_id, " ".join(question.split())], ensure_ascii=False)
    return "q-" + hashlib.sha256(content.encode()).hexdigest()[:16]


def _plain(key: str) -> str:
    return re.sub("[-_ ]", "", key.casefold())


_FIELDS = {_plain(key): name for name in fields.FIELDS for key in (name, *_ALIASES.get(name, ()))}


def _doc_id(name: str, value: Any) -> str:
    text = fields.read(name, value).strip()
    last = text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return last[: -len(".pdf")] if last.lower().endswith(".pdf") else last


def _name(name: str, value: Any) -> str:
    return str(value) if type(value) is int else fields.read(name, value)


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, or one value as a list, or nothing."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _answers(name: str, value: Any) -> tuple[str, ...]:
    items = _listed(value)
    if not all(isinstance(item, str) or type(item) in (int, float) for item in items):
        raise fields.wrong_type(name, "a string, a number or a list of them", value)
    texts = [item if isinstance(item, str) else json.dumps(item) for item in items]
    if blank := [text for text in texts if not text.strip()]:
        raise UserError(f"field '{name}' holds an empty answer {blank[0]!r}")
    return tuple(texts)


def _pages(name: str, value: Any) -> tuple[int, ...]:
    found = set()
    for item in _listed(value):
        whole = type(item) is int or (isinstance(item, float) and item.is_integer())
        if not (whole or (isinstance(item, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", item))):
            raise fields.wrong_type(name, "a page number or a list of them", item)
        found.add(int(item))
    return tuple(sorted(found))


def _texts(name: str, value: Any) -> tuple[str, ...]:
    return fields.read(name, [value] if isinstance(value, str) else value)


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "question_id": _name,
    "doc_id": _doc_id,
    "answers": _answers,
    "evidence_pages": _pages,
    "evidence_sources": _texts,
}
