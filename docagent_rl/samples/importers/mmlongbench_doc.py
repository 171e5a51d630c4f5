"""MMLongBench-Doc: https://github.com/mayubo2333/MMLongBench-Doc, hub `yubo2333/MMLongBench-Doc`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from docagent_rl.samples.importers.importer import Fields, Importer
from docagent_rl.samples.importers.library import NativeDocument, pdfs
from docagent_rl.samples.importers.literals import as_texts
from docagent_rl.samples.importers.native import Draft, NativeRow, answers_of
from docagent_rl.samples.importers.source import Source
from docagent_rl.samples.sample import Split

_UNANSWERABLE = "Not answerable"
_INTEGER = re.compile(r"\s*[-+]?[0-9]+\s*")


class _MMLongBenchDoc(Importer):
    """All seven fields are text; lists are Python's. Golds stay as they are, spaces and all.

    There is no id: `<document>#<row>`. Three rows cite page 0 and one page 1418, which are dropped.
    """

    name = "mmlongbench_doc"
    dataset = "mmlongbench"
    released = (0, 0, 1082)
    files = ("data/samples.json", "samples.json", "data/*.parquet", "*.parquet")
    split = Split.TEST
    fields = Fields(
        "doc_id", "answer", pages="evidence_pages", sources="evidence_sources", kept=("doc_type",)
    )
    base_certain = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        for number, row in enumerate(super().rows(source)):
            yield replace(row, number=number)

    def answer(self, draft: Draft) -> None:
        draft.question_id = f"{draft.doc_id}#{draft.row.number:04d}"
        gold, kind = draft.row.text("answer"), draft.row.text("answer_format")
        draft.answers, draft.answer_format = (gold,), kind
        if gold == _UNANSWERABLE:
            draft.answers, draft.answerable = (), False
        elif kind == "List":
            draft.answers = _items(draft, gold)
        elif kind == "Int" and not _INTEGER.fullmatch(gold):
            draft.notes.append("an Int gold that is no integer")

    def complete(self, draft: Draft) -> None:
        if draft.answerable and not draft.cites:
            draft.notes.append("answerable, without evidence pages")
        if not draft.answerable and draft.cites:
            draft.notes.append("unanswerable, with evidence pages")

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        return pdfs(source.root, "data/documents/*", "documents/*", "*.pdf")


def _items(draft: Draft, gold: str) -> tuple[str, ...]:
    """Return the items of a list; two golds are plain numbers, one list is empty: these stay whole."""
    try:
        items = answers_of("answer", as_texts(gold))
    except ValueError:
        draft.notes.append("a list gold that is no list")
        return (gold,)
    if not items:
        draft.notes.append("a list gold without items")
    return items or (gold,)


IMPORTER = _MMLongBenchDoc()
