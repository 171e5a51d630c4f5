"""UDA (PaperTab, PaperText, FetaTab): hub `qinchuanhui/UDA-QA`, GitHub `qinchuanhui/UDA-Benchmark`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from docagent_rl.base.errors import UserError
from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument, pdfs
from docagent_rl.records.importers.native import Draft, NativeRow, Skip, answers_of
from docagent_rl.records.importers.source import Source
from docagent_rl.records.record import Split

CONFIGS = ("paper_tab", "paper_text", "feta")
_ANSWERS = {"paper_tab": ("answer_1", "answer_2", "answer_3"), "feta": ("answer",)}
_ANSWERS["paper_text"] = _ANSWERS["paper_tab"]


class UDA(Importer):
    """Every column is text: a document is named `1912.01214` and an answer may be the word `None`.

    Missing answers are one space. There are no pages; the text of the evidence is kept where it is shipped.
    """

    name = "uda"
    rows_known: ClassVar[Mapping[tuple[str, Split], int]] = {
        ("uda_paper_tab", Split.TEST): 393,
        ("uda_paper_text", Split.TEST): 2804,
        ("uda_feta", Split.TEST): 1023,
    }

    def __init__(self) -> None:
        self._evidence: dict[tuple[str, str, str], Any] = {}

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        self._evidence = {}
        found = False
        for config in CONFIGS:
            paths = _files(source, config)
            found = found or bool(paths)
            self._evidence |= _evidence(source, config)
            number = 0
            for path in paths:
                for values in _csv_rows(path, source) if path.suffix == ".csv" else source.rows(path):
                    yield NativeRow(path, number, values, f"uda_{config}", Split.TEST)
                    number += 1
        if not found:
            source.require("questions", *(f"dataset/qa/{config}_qa.csv" for config in CONFIGS))

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        config = row.dataset.removeprefix("uda_")
        values = [row.get(name) for name in _ANSWERS[config]]
        if not all(value is None or isinstance(value, str) for value in values):
            raise Skip("an answer is no text")
        answers = answers_of("answer", [value for value in values if value is not None])
        if not answers:
            raise Skip("there is no reference answer")
        native_id = row.id("q_uid")
        draft = Draft(
            row,
            native_id,
            Split.TEST,
            row.document("doc_name"),
            row.text("question"),
            answers,
            gold=values if len(values) > 1 else values[0],
            native_id=native_id,
        )
        draft.keep("doc_url")
        if evidence := self._evidence.get((config, row.id("doc_name"), native_id)):
            draft.extra["evidence_text"] = evidence
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        papers = pdfs(source.root, "**/paper_docs/*.pdf", "**/paper_docs/**/*.pdf")
        return {**pdfs(source.root, "**/wiki_feta_docs/pdfs/*.pdf", "**/wiki_feta_docs/**/*.pdf"), **papers}


def _files(source: Source, config: str) -> list[Path]:
    if source.path.is_file():
        return [source.path] if source.path.name.startswith(f"{config}_") else []
    csv_names = (f"dataset/qa/{config}_qa.csv", f"qa/{config}_qa.csv", f"{config}_qa.csv")
    return source.find(*csv_names, f"{config}/*.parquet")


def _csv_rows(path: Path, source: Source) -> Iterator[dict[str, str]]:
    """Rows of text; a record that a stray line break cut in two is joined with the next line.

    Raises:
        UserError: the file is not UTF-8, or no table.
    """
    source.note(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter="|", quotechar='"')
            header = next(lines, [])
            if "q_uid" not in header:
                raise UserError(f"{path}: its first line is no header of UDA; download it again")
            pending: list[str] = []
            for line in lines:
                # what stands on both sides of the break is one field
                cells = (
                    [*pending[:-1], f"{pending[-1]}\n{line[0]}", *line[1:]]
                    if pending and line
                    else line or pending
                )
                pending = cells if len(cells) < len(header) else []
                if not pending:
                    yield dict(zip(header, cells, strict=False))
            if pending:
                yield dict(zip(header, pending, strict=False))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: no table in UTF-8 ({error}); download it again") from error


def _evidence(source: Source, config: str) -> dict[tuple[str, str, str], Any]:
    """The text that answers rest on, by part, document and question."""
    if source.path.is_file():
        return {}
    found: dict[tuple[str, str, str], Any] = {}
    for path in source.find(
        f"dataset/extended_qa_info/{config}_qa.json",
        f"extended_qa_info/{config}_qa.json",
        f"**/{config}_qa.json",
        f"dataset/extended_qa_info_bench/bench_{config}_qa.json",
    ):
        content = source.json(path)
        for doc_name, questions in content.items() if isinstance(content, dict) else ():
            for question in questions if isinstance(questions, list) else ():
                if isinstance(question, dict) and question.get("evidence"):
                    found[config, doc_name, str(question.get("q_uid"))] = question["evidence"]
    return found


IMPORTER = UDA()
