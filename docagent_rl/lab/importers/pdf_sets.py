"""LongDocURL, DUDE and UDA: questions about PDFs."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.importers.importer import Importer, by_split
from docagent_rl.lab.importers.native import (
    NO_ANSWER,
    ImportedQuestion,
    NativeRow,
    Skip,
    as_list,
    as_texts,
    given_answers,
    nested,
    without_pdf,
)
from docagent_rl.lab.importers.source import (
    ImportSource,
    NativeDocument,
    page_images,
    pdfs,
    split_named,
)
from docagent_rl.samples.sample import Split

_UNANSWERABLE = "Not answerable"
_DUDE_NOTHING = "not-answerable"
_DUDE_TYPES = frozenset(
    {"extractive", "abstractive", "list/extractive", "list/abstractive", _DUDE_NOTHING}
)


class _LongDocURL(Importer):
    """LongDocURL (arXiv 2412.18424): hub `dengchao/LongDocURL`, GitHub `dengc2023/LongDocURL`.

    The repository's `data/LongDocURL.jsonl` is a sample of three questions, which its evaluation
    expects to be replaced by the hub's file. Pages are the hub's PDFs, or images
    `<document>_<page>.png`, which count from 0 (`utils/extract_ccpdf.py`).

    Answers have JSON types; evidence pages count from 1, image names from 0. Boxes are mentioned in
    free text, which is kept unchanged in `extra.detailed_evidences`.

    `extra.window` is the part of the document from which the question was written, and which
    official runs show.
    """

    name = "longdocurl"
    dataset = "longdocurl"
    released = by_split("longdocurl", test=2325)
    files = (
        "LongDocURL_public_with_subtask_category.jsonl",
        "data/LongDocURL_public_with_subtask_category.jsonl",
        "LongDocURL_public.jsonl",
        "data/LongDocURL_public.jsonl",
        "data/LongDocURL.jsonl",
        "LongDocURL.jsonl",
    )
    split = Split.TEST
    document = "doc_no"
    gold = "answer"
    nothing = _UNANSWERABLE
    id = "question_id"
    pages = "evidence_pages"
    sources = "evidence_sources"
    length = "total_pages"
    kept = ("question_type", "task_tag", "subTask", "subtask", "detailed_evidences")

    def answer(self, draft: ImportedQuestion) -> None:
        super().answer(draft)
        draft.answer_format = draft.row.text("answer_format")

    def complete(self, draft: ImportedQuestion) -> None:
        draft.extra["window"] = draft.row.get("start_end_idx")

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        by_name = pdfs(source.root, "**/*.pdf")
        found = {}
        by_id = page_images(source.root, "**/*.png", first=0)
        for draft in drafts:
            if native := by_name.get(_file_name(draft)) or by_id.get(draft.doc_id):
                found[draft.doc_id] = NativeDocument(draft.doc_id, native.files)
        return found


def _file_name(draft: ImportedQuestion) -> str:
    """Return the name of the PDF; its path is that on the authors' machine."""
    path = draft.row.get("pdf_path")
    name = PurePosixPath(path.replace("\\", "/")).name if isinstance(path, str) else ""
    return without_pdf(name) if name.lower().endswith(".pdf") else draft.doc_id


class _Dude(Importer):
    """DUDE: Zenodo sample 7763635 and the binaries of hub `jordyvl/DUDE_loader`.

    Boxes are in pixels of the page at 200 dpi; their pages count from 0 (according to the demo
    file).

    Only its type decides whether a question is answerable. Test rows have no answers.
    """

    name = "dude"
    dataset = "dude"
    released = by_split("dude", 23728, 6315, 11402)
    files = ("*DUDE_gt*.json", "*/*DUDE_gt*.json", "**/*DUDE_gt*.json", "*DUDE*.json")
    under = "data"
    document = "docId"
    gold = "answers"
    id = "questionId"
    pdf_files = ("**/PDF/*/*", "**/PDF/*")
    page_files = ("**/images/*/*",)
    first_page = 0
    sizes = True

    def split_of(self, values: Any, source: ImportSource, path: Path) -> Split | None:
        return split_named(nested(values, "data_split"))

    def answer(self, draft: ImportedQuestion) -> None:
        draft.answers = given_answers(draft.parse("answers", as_texts, []))
        draft.extra["variants"] = draft.parse("answers_variants", as_texts, [])
        if draft.split is Split.TEST and not draft.answers and not draft.row.get("answer_type"):
            draft.hide()
            return
        kind = draft.row.text("answer_type").replace("not answerable", _DUDE_NOTHING)
        if kind not in _DUDE_TYPES:
            raise Skip("field 'answer_type' is not one of DUDE's types")
        draft.answer_format = kind
        draft.answerable = kind != _DUDE_NOTHING
        if not draft.answerable:
            draft.answers = ()
        elif not draft.answers:
            raise Skip(NO_ANSWER)
        _attach_boxes(draft)


def _attach_boxes(draft: ImportedQuestion) -> None:
    name = "answers_page_bounding_boxes"
    draft.native_pages = draft.row.get(name)
    draft.in_pixels = True
    for group in draft.parse(name, as_list, []):
        for box in group if isinstance(group, list) else [group]:
            page, *edges = (
                nested(box, part) for part in ("page", "left", "top", "width", "height")
            )
            if type(page) is int and all(
                type(edge) in (int, float) and math.isfinite(edge) for edge in edges
            ):
                left, top, width, height = edges
                draft.boxes.append(((draft.doc_id, page), (left, top, left + width, top + height)))
            else:
                draft.notes.append("a box is not four numbers")
    draft.cites = list(dict.fromkeys(page for page, _ in draft.boxes))


_PAPER_ANSWERS = ("answer_1", "answer_2", "answer_3")
_ANSWERS = {"paper_tab": _PAPER_ANSWERS, "paper_text": _PAPER_ANSWERS, "feta": ("answer",)}
"""Fields with answers, by subset."""


class _UDA(Importer):
    """UDA (PaperTab, PaperText, FetaTab): hub `qinchuanhui/UDA-QA`, GitHub
    `qinchuanhui/UDA-Benchmark`.

    Every column is text: a document may be named `1912.01214`, and an answer may be the word
    `None`. A missing answer is a single space. There are no evidence pages.
    """

    name = "uda"
    split = Split.TEST
    released = (
        by_split("uda_paper_tab", test=393)
        | by_split("uda_paper_text", test=2804)
        | by_split("uda_feta", test=1023)
    )
    document = "doc_name"
    gold = "answer"
    id = "q_uid"
    kept = ("doc_url",)

    def rows(self, source: ImportSource) -> Iterator[NativeRow]:
        files = {part: _uda_files(source, part) for part in _ANSWERS}
        if not any(files.values()):
            source.require(*(f"dataset/qa/{part}_qa.csv" for part in _ANSWERS))
        for part, paths in files.items():
            number = 0
            for path in paths:
                for values in (
                    _csv_rows(path, source) if path.suffix == ".csv" else source.rows(path)
                ):
                    yield NativeRow(path, number, values, f"uda_{part}", Split.TEST)
                    number += 1

    def answer(self, draft: ImportedQuestion) -> None:
        part = draft.row.dataset.removeprefix("uda_")
        values = [draft.row.get(name) for name in _ANSWERS[part]]
        if not all(value is None or isinstance(value, str) for value in values):
            raise Skip("an answer is not a text")
        draft.answers = given_answers([value for value in values if value is not None])
        if not draft.answers:
            raise Skip(NO_ANSWER)
        draft.gold = values if len(values) > 1 else values[0]
        draft.native_id = draft.question_id

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        papers = pdfs(source.root, "**/paper_docs/*.pdf", "**/paper_docs/**/*.pdf")
        return {
            **pdfs(source.root, "**/wiki_feta_docs/pdfs/*.pdf", "**/wiki_feta_docs/**/*.pdf"),
            **papers,
        }


def _uda_files(source: ImportSource, part: str) -> list[Path]:
    if source.path.is_file():
        return (
            [source.path]
            if part in (source.path.parent.name, source.path.stem.removesuffix("_qa"))
            else []
        )
    names = (f"dataset/qa/{part}_qa.csv", f"qa/{part}_qa.csv", f"{part}_qa.csv")
    return source.find(*names, f"{part}/*.parquet")


def _csv_rows(path: Path, source: ImportSource) -> Iterator[dict[str, str]]:
    """Yield rows of text; a row that a stray line break split is joined with the next line."""
    source.note(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter="|", quotechar='"')
            header = next(lines, [])
            if "q_uid" not in header:
                raise UserError(f"{path}: the first line is not UDA's header; download it again")
            pending: list[str] = []
            for line in lines:
                # the line break was inside a field
                joined = (
                    [*pending[:-1], f"{pending[-1]}\n{line[0]}", *line[1:]]
                    if pending and line
                    else []
                )
                cells = joined or line or pending
                pending = cells if len(cells) < len(header) else []
                if not pending:
                    yield dict(zip(header, cells, strict=False))
            if pending:
                yield dict(zip(header, pending, strict=False))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not a UTF-8 table ({error}); download it again") from error


IMPORTERS = (_LongDocURL(), _Dude(), _UDA())
