"""Time the overview of a long document (Doc-V*) with and without thumbnails drawn at ingestion."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.common import best_times, show, single_thread
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.shown import ShownRasters, shown_folder
from docagent_rl.documents.store import DocumentStore, Page
from docagent_rl.envs.images import render
from docagent_rl.systems.doc_v_star.overview import OverviewStyle, overview

_FETCH = Path(__file__).parents[1] / "tools" / "fetch_pdfs.sh"


def draw(store: DocumentStore, chosen: list[Page], style: OverviewStyle) -> list[bytes]:
    """Draw the overview of the chosen pages, and return the pixels of each of its sheets."""
    return [render(sheet, store).tobytes() for sheet in overview(chosen, style)]


def main(
    pages: Annotated[
        int, typer.Option(help="Pages of the document, which repeats Debian's manuals.")
    ] = 1000,
    cell: Annotated[int, typer.Option(help="Side of the square for a thumbnail, in pixels.")] = 256,
    repeats: Annotated[
        int, typer.Option(help="Rounds with cached thumbnails; the best counts.")
    ] = 3,
) -> None:
    """Print the time of an overview without a cache, while filling it, and after an ingest did."""
    single_thread(True)
    style = OverviewStyle(cell=cell)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["bash", _FETCH, folder / "pdfs"], check=True)
        ingest(folder / "pdfs", folder / "store")
        plain = DocumentStore(folder / "store", image_cache=0)
        found = [plain.page(ref) for ref in plain.pages()]
        # the pages of a real long document all differ, so decoded pages are not cached here
        chosen = [found[number % len(found)] for number in range(pages)]
        seconds, sheets = best_times({"plain": lambda: draw(plain, chosen, style)}, 1, cpu=True)
        shown = ShownRasters([folder / "shown"], capacity=8 << 30)
        filling = DocumentStore(folder / "store", image_cache=0, shown=shown)
        first, unique = list(found), len(found)
        once, _ = best_times({"first": lambda: draw(filling, first, style)}, 1, cpu=True)
        ingest(folder / "pdfs", folder / "store", thumbnails=[cell])
        shown = ShownRasters([shown_folder(folder / "store")], capacity=8 << 30)
        keeping = DocumentStore(folder / "store", image_cache=0, shown=shown)
        again, kept = best_times({"kept": lambda: draw(keeping, chosen, style)}, repeats, cpu=True)
        if kept["kept"] != sheets["plain"]:
            raise typer.BadParameter("the pixels differ")
    rows = [
        [
            "drawn anew in each trajectory",
            f"{seconds['plain']:.2f}",
            f"{seconds['plain'] / pages * 1000:.2f}",
            "1",
        ],
        [
            "drawn and cached by the first one",
            f"{once['first'] / unique * pages:.2f}",
            f"{once['first'] / unique * 1000:.2f}",
            "",
        ],
        [
            "from thumbnails drawn at ingestion",
            f"{again['kept']:.2f}",
            f"{again['kept'] / pages * 1000:.2f}",
            f"{seconds['plain'] / again['kept']:.0f}",
        ],
    ]
    title = f"Overview of {pages} pages, cells of {cell} px; the same pixels"
    show(title, ["", "seconds", "ms a page", "times as fast"], rows)


if __name__ == "__main__":
    typer.run(main)
