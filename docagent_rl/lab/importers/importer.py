"""The base class of importers: a benchmark's files and fields, and how its rows are interpreted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from docagent_rl.lab.importers.native import (
    ImportedQuestion,
    NativeRow,
    Skip,
    as_texts,
    given_answers,
    name_of,
    nested,
)
from docagent_rl.lab.importers.source import (
    ImportSource,
    NativeDocument,
    RowReader,
    column_pages,
    page_images,
    parquet_columns,
    pdfs,
    split_in,
    split_named,
)
from docagent_rl.samples.sample import Split


class Importer:
    """Reads a benchmark as it was downloaded, described by class attributes and overridden
    methods.
    """

    name: ClassVar[str]
    dataset: ClassVar[str] = ""
    released: ClassVar[Mapping[tuple[str, Split], int]] = {}
    """Number of rows in the released files, by dataset and split, if known."""
    files: ClassVar[tuple[str, ...]] = ()
    """Patterns of question files; the files of the first pattern that matches are read."""
    under: ClassVar[str | None] = None
    """Key of the list of rows, if the file contains a JSON object."""
    pictures: ClassVar[tuple[str, ...]] = ()
    """Columns with page images, which are not read together with the questions."""
    split: ClassVar[Split | None] = None
    """The split of every row; None: from the file's name."""
    unnamed_split: ClassVar[Split | None] = None
    """The split for files whose names contain none."""
    split_field: ClassVar[tuple[str, ...]] = ()
    """Path of keys to the field with the split, which takes precedence over the two above."""
    document: ClassVar[str]
    """Name of a field (`NativeRow.get`), like the following; not needed if `document_of` is
    overridden.
    """
    gold: ClassVar[str]
    nothing: ClassVar[str | None] = None
    """The gold answer that marks a question as unanswerable from its document."""
    question: ClassVar[str] = "question"
    id: ClassVar[str | None] = None
    """The id of the question; None: questions are named after their file and row."""
    pages: ClassVar[str | None] = None
    sources: ClassVar[str | None] = None
    length: ClassVar[str | None] = None
    """The number of pages of the document."""
    kept: ClassVar[tuple[str, ...]] = ()
    """Fields that are copied to `extra` under their own names."""
    first_page: ClassVar[int] = 1
    """The number of a document's first page, as documented."""
    pdf_files: ClassVar[tuple[str, ...]] = ()
    """Patterns of PDFs; the files of the first pattern that matches are used."""
    page_files: ClassVar[tuple[str, ...]] = ()
    """Patterns of page images, for documents without a PDF; they are numbered like the pages."""
    sizes: ClassVar[bool] = False
    """True if boxes require the sizes of pages."""
    corpus: ClassVar[bool] = False
    """True if all documents are needed, even those without questions, because retrieval runs over
    all of them.
    """

    def paths(self, source: ImportSource) -> Sequence[Path]:
        """Return the question files, at least one."""
        return source.require(*self.files)

    def rows(self, source: ImportSource) -> Iterator[NativeRow]:
        """Yield every row of every question file."""
        for path in self.paths(source):
            columns = None
            if self.pictures and path.suffix == ".parquet":
                columns = sorted(parquet_columns(path) - set(self.pictures))
            for number, values in enumerate(source.rows(path, under=self.under, columns=columns)):
                split = self.split_of(values, source, path)
                yield NativeRow(path, number, values, self.dataset, split, source.label(path))

    def split_of(self, values: Any, source: ImportSource, path: Path) -> Split | None:
        """Return the split of a row, or None if it is unknown."""
        named = split_named(nested(values, *self.split_field))
        return named or self.split or split_in(path, source.root, self.unnamed_split)

    def draft(self, row: NativeRow) -> ImportedQuestion:
        """Return a row as a question, or raise `Skip`."""
        if row.split is None:
            raise Skip("neither the row nor the name of its file names a split")
        name = f"{row.label}#{row.number:06d}" if self.id is None else row.id(self.id)
        draft = ImportedQuestion(
            row, name, row.split, self.document_of(row), row.text(self.question)
        )
        draft.native_id = None if self.id is None else row.get(self.id)
        draft.gold = row.get(self.gold)
        self.answer(draft)
        if self.nothing in draft.answers:
            draft.answers = ()
            draft.answerable = False
        if self.pages is not None:
            draft.cite(self.pages)
        if self.sources is not None:
            draft.label(self.sources)
        if self.length is not None:
            draft.measure(self.length)
        draft.keep(*self.kept)
        if self.corpus:
            draft.extra["retrieval_scope"] = "corpus"
        self.complete(draft)
        return draft

    def document_of(self, row: NativeRow) -> str:
        """Return the id of the document that a row is about."""
        return row.document(self.document)

    def answer(self, draft: ImportedQuestion) -> None:
        """Set the answers of a draft from its gold value: a text, a number, or a list of them."""
        gold = draft.gold
        name = name_of(self.gold)
        try:
            draft.answers = given_answers(as_texts(gold if isinstance(gold, list) else [gold]))
        except ValueError:
            raise Skip(f"field {name!r} is not a text, a number or a list of them") from None
        if not draft.answers:
            raise Skip(f"field {name!r} is blank")

    def complete(self, draft: ImportedQuestion) -> None:
        """Set what the class attributes leave open."""

    def documents(
        self, source: ImportSource, drafts: Sequence[ImportedQuestion]
    ) -> Mapping[str, NativeDocument]:
        """Return the documents of the questions that are in the download, by id; it may contain
        more.
        """
        images = page_images(source.root, *self.page_files, first=self.first_page)
        return {**images, **pdfs(source.root, *self.pdf_files)}

    def pictured(
        self,
        drafts: Sequence[ImportedQuestion],
        other: Callable[[ImportedQuestion], NativeDocument | None],
    ) -> dict[str, NativeDocument]:
        """Return documents whose pages are columns of a row, otherwise what `other` returns."""
        found: dict[str, NativeDocument] = {}
        readers: dict[Path, RowReader] = {}
        for draft in drafts:
            path = draft.row.path
            if draft.doc_id in found:
                continue
            if path.suffix == ".parquet" and self.pictures[0] in parquet_columns(path):
                pages = column_pages(readers, draft.doc_id, path, draft.row.number, self.pictures)
            else:
                pages = other(draft)
            if pages is not None:
                found[draft.doc_id] = pages
        return found

    def revise(self, drafts: Sequence[ImportedQuestion]) -> None:
        """Make changes that depend on all questions; does nothing by default."""


def by_split(
    dataset: str, train: int = 0, val: int = 0, test: int = 0
) -> dict[tuple[str, Split], int]:
    """Return the numbers of rows by dataset and split, without those that are 0."""
    return {
        (dataset, split): rows
        for split, rows in zip(Split, (train, val, test), strict=True)
        if rows
    }
