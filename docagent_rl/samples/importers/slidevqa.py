"""SlideVQA: GitHub `nttmdlab-nlp/SlideVQA`, hub `NTT-hil-insight/SlideVQA` (gated)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docagent_rl.documents.images import IMAGE_SUFFIXES, natural_key
from docagent_rl.samples.importers.importer import Fields, Importer
from docagent_rl.samples.importers.library import NativeDocument, RowReader, column_pages, pdfs
from docagent_rl.samples.importers.literals import as_texts
from docagent_rl.samples.importers.native import Draft, NativeRow
from docagent_rl.samples.importers.source import Source, nested, parquet_columns


class _SlideVQA(Importer):
    """One gold, one list of pages; regions of the `bbox` files are layout, not evidence.

    The licence forbids to pass the annotations on: samples stay where they were made.
    """

    name = "slidevqa"
    dataset = "slidevqa"
    released = (10617, 1652, 2215)
    files = ("annotations/qa/*.jsonl", "qa/*.jsonl", "data/*.parquet", "*.parquet", "*.jsonl")
    # slides of a deck; a shorter deck leaves the last ones null
    pictures = tuple(f"page_{number}" for number in range(1, 21))
    no_split = "the name of its file tells no split"
    fields = Fields("deck_name", "answer", id="qa_id", pages="evidence_pages")

    def __init__(self) -> None:
        self._layout: dict[str, Mapping[str, Any]] = {}

    def rows(self, source: Source) -> Iterator[NativeRow]:
        self.paths(source)  # that there are questions comes first
        self._layout = _layouts(source)
        yield from super().rows(source)

    def answer(self, draft: Draft) -> None:
        draft.question_id = f"{draft.split.value}-{draft.question_id}"
        # some golds are numbers in the repository's files
        number = type(draft.gold) is float and math.isfinite(draft.gold)
        draft.answers = (json.dumps(draft.gold) if number else draft.row.id("answer"),)

    def complete(self, draft: Draft) -> None:
        # the official evidence score goes by their order
        draft.extra["native_evidence_pages"] = draft.row.get("evidence_pages")
        arithmetic = draft.row.get("arithmetic_expression")
        draft.extra["arithmetic_expression"] = None if arithmetic == "None" else arithmetic
        draft.keep("deck_url", "reasoning_type", "answer_type")
        deck, pages = self._layout.get(draft.doc_id, {}), [str(cite.number) for cite in draft.cites]
        if layout := {page: deck[page] for page in pages if page in deck}:
            draft.extra["layout"] = layout

    def documents(self, source: Source, drafts: Sequence[Draft]) -> Mapping[str, NativeDocument]:
        first = {draft.doc_id: draft.row for draft in reversed(drafts)}
        found: dict[str, NativeDocument] = {}
        readers: dict[Path, RowReader] = {}
        for doc_id, row in first.items():
            if row.path.suffix == ".parquet" and self.pictures[0] in parquet_columns(row.path):
                found[doc_id] = column_pages(readers, doc_id, row.path, row.number, self.pictures)
        if missing := set(first) - set(found):
            for name, folder in _deck_folders(source.root, missing).items():
                if deck := _deck(name, folder, first[name]):
                    found[name] = deck
            found |= {name: each for name, each in pdfs(source.root, "**/*.pdf").items() if name in missing}
        return found


def _deck_folders(root: Path, names: set[str]) -> dict[str, Path]:
    """Return the folders that are named by decks, of the first place that has one."""
    folders = sorted(path for pattern in ("images/*", "images/*/*", "*/*") for path in root.glob(pattern))
    return {folder.name: folder for folder in reversed(folders) if folder.is_dir() and folder.name in names}


def _deck(name: str, folder: Path, row: NativeRow) -> NativeDocument | None:
    """Return the slides of a deck in the order of `image_urls`; None: some could not be downloaded.

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
    slides = tuple(path for path in named if path is not None)
    if slides and len(slides) == len(set(ends)) == len(ends):
        return NativeDocument(name, slides)
    if not files or (addresses and len(files) != len(addresses)):
        return None
    return NativeDocument(name, tuple(files[each] for each in sorted(files, key=natural_key)))


def _suffix(path: Path) -> str:
    return path.suffix.partition("?")[0].lower()


def _layouts(source: Source) -> dict[str, Mapping[str, Any]]:
    """Return layout regions by deck and page: native boxes `[x1, y1, w, h]` with their classes."""
    found: dict[str, Mapping[str, Any]] = {}
    paths = [] if source.path.is_file() else source.find("annotations/bbox/*.jsonl", "bbox/*.jsonl")
    for row in (row for path in paths for row in source.rows(path)):
        name, pages = nested(row, "deck_name"), nested(row, "bboxes")
        if isinstance(name, str) and isinstance(pages, list):
            pairs = (page for page in pages if isinstance(page, list) and len(page) == 2)
            found[name] = {str(number): regions for number, regions in pairs}
    return found


IMPORTER = _SlideVQA()
