"""Compare the tables of contents that are made from the text of manuals with their bookmarks."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common import show
from docagent_rl.documents import OutlineEntry
from docagent_rl.documents.contents import list_of_figures, table_of_contents
from docagent_rl.documents.contents.pages import body_lines
from docagent_rl.documents.contents.printed import printed_contents
from docagent_rl.documents.contents.typography import typed_headings, with_numbered
from docagent_rl.documents.page_text import layer_text
from docagent_rl.documents.pdf import open_pdf
from docagent_rl.documents.store import DocumentStore

USED_FOR_RULES = frozenset(
    {
        "debian-reference", "developers-reference", "gnucash-guide-en", "gnucash-help-de", "R-exts",
        "R-lang",
        "gnuplot", "packaging-tutorial", "GC3-Manual", "GC3-FAQ", "GC3-Release", "loudness-meter",
        "fullrefman", "R-FAQ",
    }
)  # fmt: skip
"""Manuals that the rules were written with; all others are held out."""

_NUMBER = re.compile(
    r"^(?:(?:chapter|section|part|appendix|kapitel|teil|anhang|cap[ií]tulo|capitolo|parte"
    r"|ap[eê]ndice|appendice)\s+"
    r"(?:\d+|[A-Z]|[IVXLC]+)(?:\.\d+)*[.:]?|第\s*\d+\s*[章部節]\.?|(?:\d+|[A-Z])(?:\.\d+)+\.?|\d+\.?"
    r"|[A-Z]\.|[IVXL]+\.)\s+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Manual:
    """The bookmarks of a PDF, and the texts of its pages by number, from 1."""

    outline: tuple[OutlineEntry, ...]
    texts: dict[int, str]


@dataclass(frozen=True)
class Score:
    """How well the headings that were found agree with the bookmarks.

    A heading is right if a bookmark has the same page and the same title, section numbers left out.

    Args:
        precision: share of the found headings that are right.
        recall: share of the bookmarks that were found.
        upper: share of the bookmarks of the first two levels that were found.
        found: number of different headings found.
        true: number of different bookmarks.
    """

    precision: float
    recall: float
    upper: float
    found: int
    true: int


def read(path: Path) -> Manual:
    """Read the text and the bookmarks of a PDF."""
    texts = {}
    with open_pdf(path) as pdf:
        for number in range(1, pdf.num_pages + 1):
            with pdf.page(number) as page, closing(page.get_textpage()) as textpage:
                texts[number] = layer_text(textpage)
        return Manual(pdf.outline(), texts)


def read_stored(path: Path, store: DocumentStore) -> Manual | None:
    """Read the bookmarks of a PDF, and the text of the stored document of the same name.

    Returns:
        the two; None if the store has no document of that name.
    """
    if path.stem not in store:
        return None
    document = store.document(path.stem)
    pages = {number: document.page(number) for number in range(1, document.num_pages + 1)}
    with open_pdf(path) as pdf:
        outline = pdf.outline()
    texts = {number: page.text() for number, page in pages.items()}
    return Manual(outline, texts)


def without_tables(manual: Manual) -> Manual:
    """Return the manual without the pages of its printed table of contents."""
    lines = {
        page: [" ".join(line.split()) for line in text.splitlines()]
        for page, text in manual.texts.items()
    }
    tables = printed_contents(body_lines(lines)).pages
    return Manual(
        manual.outline, {page: text for page, text in manual.texts.items() if page not in tables}
    )


def plain(title: str) -> str:
    """Return the letters and digits of a title without its section number, case-folded."""
    title = " ".join(unicodedata.normalize("NFKC", title).split())
    return "".join(letter for letter in _NUMBER.sub("", title).casefold() if letter.isalnum())


def score(found: Iterable[tuple[str, int]], outline: Iterable[OutlineEntry]) -> Score:
    """Compare (title, page) pairs with bookmarks.

    Bookmarks without a page, and titles without letters or digits, do not count.
    """
    pairs = {(plain(title), page) for title, page in found if plain(title)}
    bookmarks = [entry for entry in outline if entry.page and plain(entry.title)]
    true = {(plain(entry.title), entry.page) for entry in bookmarks}
    upper = {(plain(entry.title), entry.page) for entry in bookmarks if entry.level <= 2}
    hits = len(pairs & true)
    return Score(
        precision=hits / max(len(pairs), 1),
        recall=hits / max(len(true), 1),
        upper=len(pairs & upper) / max(len(upper), 1),
        found=len(pairs),
        true=len(true),
    )


def main(
    folder: Annotated[Path, typer.Argument(help="A folder of PDFs with bookmarks.")],
    no_table: Annotated[
        bool, typer.Option(help="Ignore the printed tables of contents, too.")
    ] = False,
    layout: Annotated[bool, typer.Option(help="Find headings as `ingest --layout` does.")] = False,
    store: Annotated[
        Path | None,
        typer.Option(
            help="A store with documents of the same names, such as scans read by OCR, whose text "
            "is used."
        ),
    ] = None,
) -> None:
    """Print precision and recall of the headings that are found in each PDF of a folder."""
    rows, scores = [], []
    for path in sorted(folder.glob("*.pdf")):
        manual = read(path) if store is None else read_stored(path, DocumentStore(store))
        if manual is None or not manual.outline:
            continue
        if no_table:
            manual = without_tables(manual)
        began = time.perf_counter()
        found = (
            with_numbered(typed_headings(path, len(manual.texts)), manual.texts) if layout else ()
        )
        headings = table_of_contents(found, manual.texts, max_title=1000)
        captions = list_of_figures(manual.texts)
        seconds = time.perf_counter() - began
        result = score([(heading.title, heading.page) for heading in headings], manual.outline)
        scores.append(result)
        shares = [f"{share:.3f}" for share in (result.precision, result.recall, result.upper)]
        rows.append(
            [
                path.stem + ("" if path.stem in USED_FOR_RULES else " (held out)"),
                str(len(manual.texts)),
                str(result.true),
                str(result.found),
                *shares,
                str(len(captions)),
                f"{seconds:.2f}",
            ]
        )
    columns = [
        "manual",
        "pages",
        "bookmarks",
        "found",
        "precision",
        "recall",
        "levels 1, 2",
        "captions",
        "seconds",
    ]
    show("Contents without bookmarks", columns, rows)
    hits = sum(each.recall * each.true for each in scores)
    found, true = sum(each.found for each in scores), sum(each.true for each in scores)
    typer.echo(f"all: precision {hits / found:.3f}, recall {hits / true:.3f}")


if __name__ == "__main__":
    typer.run(main)
