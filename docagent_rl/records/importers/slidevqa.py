"""SlideVQA: GitHub `nttmdlab-nlp/SlideVQA`, hub `NTT-hil-insight/SlideVQA` (gated)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from docagent_rl.documents.images import IMAGE_SUFFIXES, natural_key
from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.library import NativeDocument, RowReader, column_pages, deck_folders, pdfs
from docagent_rl.records.importers.literals import as_texts
from docagent_rl.records.importers.native import Draft, NativeRow, Skip
from docagent_rl.records.importers.source import Source, parquet_columns, split_in
from docagent_rl.records.record import Split

DATASET = "slidevqa"
PAGES = [f"page_{number}" for number in range(1, 21)]
"""Columns with the slides of a deck; a shorter deck leaves the last ones null."""


class SlideVQA(Importer):
    """One gold, one list of pages; regions of the `bbox` files are layout, not evidence.

    The licence forbids to pass the annotations on: records stay where they were made.
    """

    name = "slidevqa"
    rows_known: ClassVar[Mapping[tuple[str, Split], int]] = {
        (DATASET, Split.TRAIN): 10617,
        (DATASET, Split.VAL): 1652,
        (DATASET, Split.TEST): 2215,
    }

    def __init__(self) -> None:
        self._layout: dict[str, Mapping[str, Any]] = {}

    def rows(self, source: Source) -> Iterator[NativeRow]:
        """See `Importer`."""
        paths = source.require(
            "questions", "annotations/qa/*.jsonl", "qa/*.jsonl", "data/*.parquet", "*.parquet", "*.jsonl"
        )
        self._layout = _layouts(source)
        for path in paths:
            split = split_in(path, source.root)
            columns = sorted(parquet_columns(path) - set(PAGES)) if path.suffix == ".parquet" else None
            for number, values in enumerate(source.rows(path, columns=columns)):
                yield NativeRow(path, number, values, DATASET, split)

    def draft(self, row: NativeRow) -> Draft:
        """See `Importer`."""
        if row.split is None:
            raise Skip("the name of its file tells no split")
        gold = _gold(row)
        draft = Draft(
            row,
            f"{row.split.value}-{row.id('qa_id')}",
            row.split,
            row.document("deck_name"),
            row.text("question"),
            (gold,),
            gold=row.get("answer"),
            native_id=row.get("qa_id"),
        )
        draft.cite("evidence_pages")
        # the official evidence score goes by their order
        draft.extra["native_evidence_pages"] = row.get("evidence_pages")
        arithmetic = row.get("arithmetic_expression")
        draft.extra["arithmetic_expression"] = None if arithmetic == "None" else arithmetic
        draft.keep("deck_url", "reasoning_type", "answer_type")
        deck = self._layout.get(draft.doc_id, {})
        if layout := {
            str(cite.number): deck[str(cite.number)] for cite in draft.cites if str(cite.number) in deck
        }:
            draft.extra["layout"] = layout
        return draft

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        """See `Importer`."""
        first = {draft.doc_id: draft.row for draft in reversed(drafts)}
        found: dict[str, NativeDocument] = {}
        readers: dict[Path, RowReader] = {}
        for doc_id, row in first.items():
            if row.path.suffix == ".parquet" and parquet_columns(row.path) >= set(PAGES[:1]):
                found[doc_id] = column_pages(readers, doc_id, row.path, row.number, PAGES)
        if missing := set(first) - set(found):
            folders = deck_folders(source.root, missing, "images/*", "images/*/*", "*/*")
            decks = {name: _deck(name, folder, first[name]) for name, folder in folders.items()}
            found |= {name: deck for name, deck in decks.items() if deck is not None}
            found |= {name: each for name, each in pdfs(source.root, "**/*.pdf").items() if name in missing}
        return found


def _gold(row: NativeRow) -> str:
    """The answer as text; some are numbers in the repository's files."""
    value = row.get("answer")
    return json.dumps(value) if type(value) is float and math.isfinite(value) else row.id("answer")


def _deck(name: str, folder: Path, row: NativeRow) -> NativeDocument | None:
    """The slides of a deck in the order of `image_urls`; None: some could not be downloaded.

    The repository's script names a file as its address ends (`...-7-1024.jpg?cb=1`). By their names alone,
    slides behind a dead address would move up.
    """
    files = {path.name: path for path in folder.iterdir() if _suffix(path) in IMAGE_SUFFIXES}
    try:
        addresses = as_texts(row.get("image_urls") or [])
    except ValueError:
        addresses = []
    ends = [address.rpartition("/")[2] for address in addresses]
    named = [files.get(end) or files.get(end.partition("?")[0]) for end in ends]
    if named and len(set(ends)) == len(ends) and all(named):
        return NativeDocument(name, tuple(path for path in named if path is not None))
    if not files or (addresses and len(files) != len(addresses)):
        return None
    return NativeDocument(name, tuple(files[each] for each in sorted(files, key=natural_key)))


def _suffix(path: Path) -> str:
    return path.suffix.partition("?")[0].lower()


def _layouts(source: Source) -> dict[str, Mapping[str, Any]]:
    """Layout regions by deck and page: native boxes `[x1, y1, w, h]` with their classes."""
    found: dict[str, Mapping[str, Any]] = {}
    if source.path.is_file():
        return found
    for path in source.find("annotations/bbox/*.jsonl", "bbox/*.jsonl"):
        for row in source.rows(path):
            name, pages = (row.get("deck_name"), row.get("bboxes")) if isinstance(row, dict) else (None, None)
            if isinstance(name, str) and isinstance(pages, list):
                found[name] = {
                    str(page[0]): page[1] for page in pages if isinstance(page, list) and len(page) == 2
                }
    return found


IMPORTER = SlideVQA()
