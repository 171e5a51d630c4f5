"""UDA (PaperTab, PaperText, FetaTab): hub `qinchuanhui/UDA-QA`, GitHub `qinchuanhui/UDA-Benchmark`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.samples.importers.importer import Importer, by_split
from docagent_rl.samples.importers.native import Draft, NativeRow, Skip, answers_of
from docagent_rl.samples.importers.source import NativeDocument, Source, pdfs
from docagent_rl.samples.sample import Split

_PAPER_ANSWERS = ("answer_1", "answer_2", "answer_3")
_ANSWERS = {"paper_tab": _PAPER_ANSWERS, "paper_text": _PAPER_ANSWERS, "feta": ("answer",)}
"""Fields with answers, by part."""


class _UDA(Importer):
    """Every column is text: a document is named `1912.01214` and an answer may be the word `None`.

    Missing answers are one space. There are no pages.
    """

    name = "uda"
    split = Split.TEST
    released = (
        by_split("uda_paper_tab", test=393)
        | by_split("uda_paper_text", test=2804)
        | by_split("uda_feta", test=1023)
    )
    document, gold, id, kept = "doc_name", "answer", "q_uid", ("doc_url",)

    def rows(self, source: Source) -> Iterator[NativeRow]:
        files = {part: _files(source, part) for part in _ANSWERS}
        if not any(files.values()):
            source.require(*(f"dataset/qa/{part}_qa.csv" for part in _ANSWERS))
        for part, paths in files.items():
            number = 0
            for path in paths:
                for values in _csv_rows(path, source) if path.suffix == ".csv" else source.rows(path):
                    yield NativeRow(path, number, values, f"uda_{part}", Split.TEST)
                    number += 1

    def answer(self, draft: Draft) -> None:
        part = draft.row.dataset.removeprefix("uda_")
        values = [draft.row.get(name) for name in _ANSWERS[part]]
        if not all(value is None or isinstance(value, str) for value in values):
            raise Skip("an answer is no text")
        draft.answers = answers_of("answer", [value for value in values if value is not None])
        if not draft.answers:
            raise Skip("there is no reference answer")
        draft.gold = values if len(values) > 1 else values[0]
        draft.native_id = draft.question_id

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        papers = pdfs(source.root, "**/paper_docs/*.pdf", "**/paper_docs/**/*.pdf")
        return {**pdfs(source.root, "**/wiki_feta_docs/pdfs/*.pdf", "**/wiki_feta_docs/**/*.pdf"), **papers}


def _files(source: Source, part: str) -> list[Path]:
    if source.path.is_file():
        return (
            [source.path] if part in (source.path.parent.name, source.path.stem.removesuffix("_qa")) else []
        )
    names = (f"dataset/qa/{part}_qa.csv", f"qa/{part}_qa.csv", f"{part}_qa.csv")
    return source.find(*names, f"{part}/*.parquet")


def _csv_rows(path: Path, source: Source) -> Iterator[dict[str, str]]:
    """Yield rows of text; a sample that a stray line break cut in two is joined with the next line."""
    source.note(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter="|", quotechar='"')
            header = next(lines, [])
            if "q_uid" not in header:
                raise UserError(f"{path}: its first line is no header of UDA; download it again")
            pending: list[str] = []
            for line in lines:
                # the parts on both sides of the break are one field
                joined = [*pending[:-1], f"{pending[-1]}\n{line[0]}", *line[1:]] if pending and line else []
                cells = joined or line or pending
                pending = cells if len(cells) < len(header) else []
                if not pending:
                    yield dict(zip(header, cells, strict=False))
            if pending:
                yield dict(zip(header, pending, strict=False))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: no table in UTF-8 ({error}); download it again") from error


IMPORTERS = (_UDA(),)
