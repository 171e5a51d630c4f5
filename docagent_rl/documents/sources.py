"""The documents of a folder, and the report of their ingest."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import composed, id_problem, lone_surrogate, one_line
from docagent_rl.documents.layout import MARKER
from docagent_rl.documents.office import OFFICE_SUFFIXES, missing_office
from docagent_rl.documents.quality import Quality
from docagent_rl.documents.settings import DocumentError
from docagent_rl.documents.tiff import TIFF_SUFFIXES, page_frames

# fmt: off
IMAGE_SUFFIXES = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".avif",
    ".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx", ".ppm", ".pgm", ".pbm", ".pnm",
})
# fmt: on
# suffixes of pictures that cannot be read but may be pages
_OTHER_SUFFIXES = frozenset(
    {".heic", ".heif", ".hif", ".jxl", ".jxr", ".tga", ".pcx", ".psd", ".djvu", ".djv"}
)
SUFFIXES = IMAGE_SUFFIXES | _OTHER_SUFFIXES | OFFICE_SUFFIXES | {".pdf"}
_OPEN_ELSEWHERE = "~$"
"""Prefix of the lock files that Office puts next to open files."""


class SourceKind(StrEnum):
    """The kinds of sources."""

    PDF = "pdf"
    IMAGES = "images"
    TIFF = "tiff"
    """A TIFF of several pages."""
    OFFICE = "office"
    """An office file, which is converted to a PDF."""


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document to ingest."""

    doc_id: str
    kind: SourceKind
    files: tuple[Path, ...]
    """The file, or the page images in page order."""
    name: str
    """Path of the file or folder inside the ingested folder."""

    def __post_init__(self) -> None:
        # normalise Unicode, so that names that look the same are the same
        object.__setattr__(self, "doc_id", composed(self.doc_id))


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A source that was left out."""

    name: str
    """Path inside the ingested folder."""
    reason: str
    may_pass: bool = False
    """Time, memory or a program was lacking: another run may succeed."""


@dataclass(slots=True)
class IngestReport:
    """The outcome of an ingest; all lists are sorted by document id."""

    ingested: list[str] = field(default_factory=list)
    """Documents that this run stored."""
    replaced: list[str] = field(default_factory=list)
    """Documents among `ingested` of which the store had another version (other content or
    settings).
    """
    repaired: list[str] = field(default_factory=list)
    """Documents among `ingested` of which the store had this version, with damaged or missing
    pages.
    """
    skipped: list[str] = field(default_factory=list)
    """Documents that were in the store already."""
    kept: list[str] = field(default_factory=list)
    """Documents of which the store has another version that was not to be replaced."""
    reused: list[str] = field(default_factory=list)
    """Documents among `ingested` whose pages were in the store under another id."""
    removed: list[str] = field(default_factory=list)
    """Documents that were removed because they are gone from the folder."""
    withheld: list[str] = field(default_factory=list)
    """Documents that are gone from the folder but were not removed, because they are too many."""
    failed: list[FailedDocument] = field(default_factory=list)
    unread: list[FailedDocument] = field(default_factory=list)
    """Stored documents whose layout could not be read, with the reason."""
    completed: list[str] = field(default_factory=list)
    """Documents among `skipped` whose layout an earlier run could not read and this one did."""
    pages: int = 0
    """Number of pages of the ingested documents."""
    resumed_pages: int = 0
    """Number of pages among `pages` that an interrupted run had stored."""
    ocr_pages: int = 0
    """Number of pages of the ingested documents with text by OCR."""
    textless_pages: int = 0
    """Number of pages of the ingested documents without text."""
    thumbnails: int = 0
    """Number of thumbnails that this run drew."""
    qualities: list[Quality] = field(default_factory=list)
    """The quality with which the ingested documents were read."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """Numbers of files that were ignored, such as those that are neither PDFs nor pictures, by
    suffix.
    """

    @property
    def may_pass(self) -> bool:
        """True if something could not be read that another run may be able to read."""
        return any(failure.may_pass for failure in (*self.failed, *self.unread))

    def sort(self) -> None:
        """Sort all lists."""
        for ids in (
            self.ingested,
            self.replaced,
            self.repaired,
            self.skipped,
            self.kept,
            self.completed,
        ):
            ids.sort()
        self.qualities.sort(key=lambda quality: quality.doc_id)
        for ids in (self.reused, self.removed, self.withheld):
            ids.sort()
        for failures in (self.failed, self.unread):
            failures.sort(key=lambda failure: failure.name)


@dataclass(slots=True)
class Sources:
    """The documents of a folder."""

    documents: list[SourceDocument] = field(default_factory=list)
    failed: list[FailedDocument] = field(default_factory=list)
    """Files that belong to no document and folders that cannot be read, with the reasons."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """See `IngestReport`."""

    def add(self, document: SourceDocument) -> None:
        """Add a document, or a failure if its name cannot be that of a document."""
        if problem := _name_problem(document.name):
            self.fail(document.name, problem)
        else:
            self.documents.append(document)

    def fail(self, name: str, reason: str) -> None:
        """Add a document that is left out."""
        self.failed.append(FailedDocument(_printable(name), reason))

    def sort_out_ids(self) -> None:
        """Sort the documents by id; those that share an id fail, each with the name of another."""
        by_id: dict[str, list[SourceDocument]] = defaultdict(list)
        for document in self.documents:
            by_id[document.doc_id].append(document)
        self.documents = []
        for doc_id, same in sorted(by_id.items()):
            if len(same) == 1:
                self.documents += same
                continue
            for one in same:
                other = next(each for each in same if each is not one)
                self.fail(
                    one.name, f"{other.name} would have the id {doc_id!r}, too: rename one of them"
                )


def discover(source: Path) -> Sources:
    """Find the documents under `source`, sorted by id.

    - A PDF is a document named by its path below `source` without `.pdf`, such as `2019/report`. So
      are a TIFF of several pages, and an office file unless there is a PDF of the same name.
    - A sub-folder with images is a document named by its path. Images directly in `source` are
      named `<document>_<page>`. In both cases, the last number in a file's name is its page number,
      and pages run from 1 without gaps.
    - Hidden files and document stores are ignored, and files of other kinds are only counted. Links
      out of `source`, and documents that would have the same id (`a.pdf` next to a folder `a` of
      images), are reported as failures.

    `source` may also be a single file that is a document.

    Raises:
        UserError: `source` does not exist, cannot be read or contains no document.
    """
    try:
        if not source.exists():
            raise UserError(f"{source} does not exist")
    except OSError as error:
        raise UserError(f"{source} cannot be read ({error.strerror or error})") from error
    found = Sources()
    if source.is_file():
        kind = _whole(source)
        if kind is None:
            kinds = "a PDF, a TIFF of several pages nor an office file"
            raise UserError(f"{source} is neither a folder, {kinds}")
        _add_file(found, source, source.name, kind)
    else:
        for folder, files in _walk(source, found):
            _discover_folder(found, source, folder, files)
    if not found.documents and not found.failed:
        suffixes = " ".join(sorted(IMAGE_SUFFIXES))
        raise UserError(f"no PDF and no page image ({suffixes}) under {source}")
    found.sort_out_ids()
    return found


def _walk(source: Path, found: Sources) -> Iterator[tuple[Path, list[Path]]]:
    def report(error: OSError) -> None:
        reason = f"the folder cannot be read ({error.strerror or error})"
        folder = Path(error.filename)
        if folder == source:
            raise UserError(f"{source}: {reason}") from error
        found.fail(_name(folder, source), reason)

    def stays(path: Path) -> bool:
        """Return whether a path stays in `source`; report it if not."""
        if reason := link_out(path, source):
            found.fail(_name(path, source), reason)
        return reason is None

    seen: set[str] = set()
    for name, folders, files in os.walk(source, onerror=report, followlinks=True):
        real = os.path.realpath(name)
        if MARKER in files or real in seen:  # seen: links may lead in a circle
            folders.clear()
            continue
        seen.add(real)
        visible = [Path(name, folder) for folder in sorted(folders) if not folder.startswith(".")]
        folders[:] = [folder.name for folder in visible if stays(folder)]
        paths = [
            Path(name, file)
            for file in sorted(files)
            if not file.startswith((".", _OPEN_ELSEWHERE))
        ]
        ends = [path.suffix.lower() for path in paths]
        found.passed_over.update(_printable(end) for end in ends if end not in SUFFIXES)
        pairs = zip(paths, ends, strict=True)
        yield Path(name), [path for path, end in pairs if end in SUFFIXES and stays(path)]


def link_out(path: Path, folder: Path) -> str | None:
    """Return why a file or folder is not read, or None: it may be behind a link out of `folder`."""
    target = Path(os.path.realpath(path))
    if target.is_relative_to(os.path.realpath(folder)):
        return None
    return _printable(f"a link out of the folder, to {target}: replace it by a copy")


def _discover_folder(found: Sources, source: Path, folder: Path, files: list[Path]) -> None:
    by_document: dict[str, list[Path]] = defaultdict(list)
    printed = {path.stem for path in files if path.suffix.lower() == ".pdf"}
    for path in files:
        kind = _whole(path)
        if kind is SourceKind.OFFICE and path.stem in printed:
            found.passed_over[path.suffix.lower()] += 1
            continue
        if kind is not None:
            _add_file(found, path, _name(path, source), kind)
            continue
        doc_id, _, number = path.stem.rpartition("_")
        if folder != source:
            doc_id = _name(folder, source)
        elif not doc_id or not (number.isascii() and number.isdigit()):
            reason = (
                "not named <document>_<page>; rename it, or give each document a folder of its own"
            )
            found.fail(path.name, reason)
            continue
        by_document[composed(doc_id)].append(path)
    for doc_id, paths in by_document.items():
        others = [path for path in paths if path.suffix.lower() in _OTHER_SUFFIXES]
        for path in others:  # without these pages, the document would be incomplete
            reason = "a picture in an unsupported format: save it as PNG or JPEG, or remove it"
            found.fail(_name(path, source), reason)
        if others:
            continue
        name = f"{doc_id}_*" if folder == source else _name(folder, source)
        try:
            found.add(SourceDocument(doc_id, SourceKind.IMAGES, _order_pages(paths), name))
        except DocumentError as error:
            found.fail(name, str(error))


def _order_pages(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files in page order: the last number in a file's name is its page number."""
    last = 0
    ordered = []
    # iterate over the files, not over numbers: a file may have a huge number
    for number, path in sorted((_page_number(path), path) for path in paths):
        if number == last:
            raise DocumentError(f"page {number} exists twice: {ordered[-1].name} and {path.name}")
        if number != last + 1:
            raise DocumentError(
                f"page {last + 1} is missing before {path.name}: number the files from 1 without "
                "gaps; the last number in a file's name is its page number"
            )
        last = number
        ordered.append(path)
    return tuple(ordered)


def _page_number(path: Path) -> int:
    numbers = re.findall("[0-9]+", path.stem)
    if not numbers or int(numbers[-1]) == 0:
        raise DocumentError(
            f"the name of {path.name} contains no page number: number the files from 1"
        )
    return int(numbers[-1])


def _whole(path: Path) -> SourceKind | None:
    """Return the kind of a file that is a whole document; None if it may be a page of one."""
    suffix = path.suffix.lower()
    if suffix == ".pdf":
        return SourceKind.PDF
    if suffix in OFFICE_SUFFIXES:
        return SourceKind.OFFICE
    # `is_file` first: opening a pipe would block for ever
    is_long = suffix in TIFF_SUFFIXES and path.is_file() and len(page_frames(path)) > 1
    return SourceKind.TIFF if is_long else None


def _add_file(found: Sources, path: Path, name: str, kind: SourceKind) -> None:
    if kind is SourceKind.OFFICE and (problem := missing_office()):
        found.fail(name, problem)
        return
    # only the last suffix is removed: `report.v1.2.pdf` is `report.v1.2`
    found.add(SourceDocument(name.removesuffix(path.suffix), kind, (path,), name))


def _name(path: Path, source: Path) -> str:
    return path.relative_to(source).as_posix()


def _name_problem(name: str) -> str | None:
    """Return why a name cannot be that of a document, or None if it can."""
    return "its name is not UTF-8: rename it" if lone_surrogate(name) else id_problem(name)


def _printable(name: str) -> str:
    return one_line(
        name.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")
    )
