"""MMLongBench-Doc: https://github.com/mayubo2333/MMLongBench-Doc, hub `yubo2333/MMLongBench-Doc`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument, pdfs
from docagent_rl.records.importers.literals import as_texts
from docagent_rl.records.importers.native import Draft, NativeRow, answers_of
from docagent_rl.records.importers.source import Source
from docagent_rl.records.record import Split

DATASET = "mmlongbench"
UNANSWERABLE = "Not answerable"
_INTEGER = re.compile(r"\s*[-+]?[0-9]+\s*")


class MMLongBenchDoc(Importer):
    """All seven fields are text; lists are Python's. Golds stay as they are, spaces and all.

    There is no id: `<document>#<row>`. Three rows cite page 0 and one page 1418, which are dropped.
    """

    name = "mmlongbench_doc"
    rows_known: ClassVar[Mapping[tuple[str, Split], int]] = {(DATASET, Split.TEST): 1082}
    base_certain = True

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        paths = source.require(
            "questions", "data/samples.json", "samples.json", "data/*.parquet", "*.parquet"
        )
        number = 0
        for path in paths:
            for values in source.rows(path):
                yield NativeRow(path, number, values, DATASET, Split.TEST)
                number += 1

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        doc_id, gold = row.document("doc_id"), row.text("answer")
        kind = row.text("answer_format")
        draft = Draft(
            row,
            f"{doc_id}#{row.number:04d}",
            Split.TEST,
            doc_id,
            row.text("question"),
            (gold,),
            gold=gold,
            native_id=None,
            answer_format=kind,
        )
        if gold == UNANSWERABLE:
            draft.answers, draft.answerable = (), False
        elif kind == "List":
            draft.answers = _items(draft, gold)
        elif kind == "Int" and not _INTEGER.fullmatch(gold):
            draft.notes.append("an Int gold that is no integer")
        draft.cite("evidence_pages")
        draft.label("evidence_sources")
        draft.keep("doc_type")
        if draft.answerable and not draft.cites:
            draft.notes.append("answerable, without evidence pages")
        if not draft.answerable and draft.cites:
            draft.notes.append("unanswerable, with evidence pages")
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        return pdfs(source.root, "data/documents/*", "documents/*", "*.pdf")


def _items(draft: Draft, gold: str) -> tuple[str, ...]:
    """Items of a list; two golds are plain numbers, one list is empty: these stay whole."""
    try:
        items = answers_of("answer", as_texts(gold))
    except ValueError:
        draft.notes.append("a list gold that is no list")
        return (gold,)
    if not items:
        draft.notes.append("a list gold without items")
    return items or (gold,)


IMPORTER = MMLongBenchDoc()
