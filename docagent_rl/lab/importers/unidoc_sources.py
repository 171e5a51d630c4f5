"""Double-Bench, VisR-Bench and DocBench: sources of UniDoc-RL's training data."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from docagent_rl.lab.importers.importer import Importer, by_split
from docagent_rl.lab.importers.native import (
    ImportedQuestion,
    NativeRow,
    Skip,
    document_id,
    is_file_name,
    nested,
)
from docagent_rl.lab.importers.source import ImportSource, NativeDocument
from docagent_rl.samples.sample import Split, is_digits


class _DoubleBench(Importer):
    """Double-Bench (arXiv 2508.03644): GitHub `Episoode/Double-Bench`, hub `Episoode/Double-Bench`.

    The repository has the questions (`Double_Bench/{single,multi}_bench.json`); of the hub's copy
    only its card was seen. `doc_path` is `docs/<language>/<number>`, a folder of `<page>.jpg` as
    the repository's pipeline reads them (`gt_processor.py`). Pages count from 0: 367 single-hop
    questions cite page 0.

    A document is named `<language>_<number>`. Single-hop and multi-hop questions count their `uid`
    separately, so an id begins with `single` or `multi`. Some rows have `modality` in place of
    `source_type`.
    """

    name = "double_bench"
    dataset = "double_bench"
    released = by_split("double_bench", test=5168)
    files = (
        "Double_Bench/single_bench.json Double_Bench/multi_bench.json",
        "single_bench.json multi_bench.json",
        "*/single_bench.json */multi_bench.json",
    )
    split = Split.TEST
    document = "doc_path"
    gold = "answer"
    id = "uid"
    pages = "reference_page"
    sources = "source_type|modality"
    kept = ("language", "query_type", "doc_type", "steps")
    first_page = 0
    corpus = True

    def document_of(self, row: NativeRow) -> str:
        parts = PurePosixPath(row.text(self.document)).parts
        return document_id("_".join(parts[-2:]), self.document)

    def complete(self, draft: ImportedQuestion) -> None:
        kind = draft.row.path.stem.removesuffix("_bench")
        draft.question_id = f"{kind}-{draft.question_id}"

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        found: dict[str, NativeDocument] = {}
        for folder in sorted(source.root.glob("**/docs/*/*")):
            name = f"{folder.parent.name}_{folder.name}"
            if folder.is_dir() and is_file_name(name):
                pages = _numbered(folder, first=self.first_page)
                if pages is not None:
                    found.setdefault(name, NativeDocument(name, pages))
        return found


def _numbered(folder: Path, *, first: int) -> tuple[Path, ...] | None:
    """Return the images `<page>.jpg` of a folder in order; None if one is missing."""
    pages = {int(path.stem): path for path in folder.glob("*.jpg") if is_digits(path.stem)}
    if not pages or sorted(pages) != list(range(first, first + len(pages))):
        return None
    return tuple(path for _, path in sorted(pages.items()))


class _VisRBench(Importer):
    """VisR-Bench (arXiv 2508.07493): GitHub `puar-playground/VisR-Bench` (`QA/<kind>_QA.json`), hub
    `puar-playground/VisR-Bench` (page images).

    A row of a file is a document: `file_name`, `all_page_images`, and `qa_list` with `question`,
    `answer` and `page_index`, an index from 0 into the images (`run_test.py`). Its images are in a
    folder of that name, which the hub has in `Multimodal/` or `Multilingual/`. The files themselves
    were not seen; `answer` and `detected_language` are as code of others reads them.
    """

    name = "visr_bench"
    dataset = "visr_bench"
    files = ("QA/*_QA.json", "*_QA.json", "*/QA/*_QA.json", "*/*_QA.json")
    split = Split.TEST
    document = "file_name"
    gold = "answer"
    kept = ("detected_language",)
    first_page = 0

    def rows(self, source: ImportSource) -> Iterator[NativeRow]:
        for path in self.paths(source):
            label = source.label(path).rpartition("-")[2].removesuffix("_QA")
            number = 0
            for document in source.rows(path):
                for question in _questions(document):
                    yield NativeRow(path, number, question, self.dataset, Split.TEST, label)
                    number += 1

    def complete(self, draft: ImportedQuestion) -> None:
        images = draft.row.get("all_page_images")
        named = (
            isinstance(images, list) and images and all(isinstance(each, str) for each in images)
        )
        if not named or not all(map(is_file_name, images)):
            raise Skip("field 'all_page_images' is not a list of files")
        draft.num_pages = len(images)
        draft.sources = (draft.row.label,)
        draft.native_pages = page = draft.row.get("page_index")
        if type(page) is not int:
            raise Skip("field 'page_index' is not a whole number")
        draft.cites = [(draft.doc_id, page)]

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        first = {draft.doc_id: draft.row for draft in reversed(drafts)}
        found: dict[str, NativeDocument] = {}
        for folder in sorted(source.root.glob("**/*")):
            row = first.get(folder.name) if folder.is_dir() else None
            if row is None or folder.name in found:
                continue
            files = tuple(folder / name for name in row.get("all_page_images"))
            if all(path.is_file() for path in files):
                found[folder.name] = NativeDocument(folder.name, files)
        return found


def _questions(document: object) -> Iterator[object]:
    """Yield the questions of a document, each with the document's own fields."""
    listed = nested(document, "qa_list")
    if not isinstance(document, Mapping) or not isinstance(listed, list):
        yield document  # which the draft refuses, and the report counts
        return
    shared = {name: document.get(name) for name in ("file_name", "all_page_images")}
    for question in listed:
        yield {**question, **shared} if isinstance(question, Mapping) else question


class _DocBench(Importer):
    """DocBench (arXiv 2407.10701): the folder `data/` that GitHub `Anni-Zou/DocBench` links to.

    Each document has a folder named by its number, with one PDF and `<number>_qa.jsonl`, whose rows
    have `question`, `answer`, `type` and `evidence` (`run.py`, `evaluate.py`). The files themselves
    were not seen. `evidence` is text: there are no evidence pages. Types that begin with `una` mark
    questions that the document does not answer; their gold stays in `extra.gold`.

    A document is named `docbench_<number>`, since PDFs have names of their own.
    """

    name = "docbench"
    dataset = "docbench"
    released = by_split("docbench", test=1102)
    files = ("data/*/*_qa.jsonl", "*/*_qa.jsonl")
    split = Split.TEST
    document = "file"
    gold = "answer"
    sources = "type"
    kept = ("evidence",)

    def document_of(self, row: NativeRow) -> str:
        return document_id(_docbench_name(row.path.parent), self.document)

    def complete(self, draft: ImportedQuestion) -> None:
        draft.question_id = f"{draft.row.path.parent.name}-{draft.row.number}"
        kind = draft.row.get("type")
        if isinstance(kind, str) and kind.startswith("una"):
            draft.answers = ()
            draft.answerable = False

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        found: dict[str, NativeDocument] = {}
        for folder in sorted({draft.row.path.parent for draft in drafts}):
            files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() == ".pdf"]
            if files:
                name = _docbench_name(folder)
                found[name] = NativeDocument(name, (files[0],), namesakes=tuple(files[1:]))
        return found


def _docbench_name(folder: Path) -> str:
    return f"docbench_{folder.name}"


IMPORTERS = (_DoubleBench(), _VisRBench(), _DocBench())
