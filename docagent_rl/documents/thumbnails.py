"""Thumbnails of pages, drawn when documents are ingested, so that no trajectory waits for them.

They lie in the cache of drawn pages next to the store (`docagent_rl.documents.shown`), where runs
find them; a missing one is drawn by the run that needs it, with the same pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError
from docagent_rl.documents.drawn import Resample, resized, shown_name, thumbnail_size
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.settings import Size
from docagent_rl.documents.shown import (
    CAPACITY_MIB,
    ShownRasters,
    shown_bytes,
    shown_folder,
)
from docagent_rl.documents.store import DocumentStore, Page
from docagent_rl.documents.workers import begin_part

if TYPE_CHECKING:
    from rich.progress import Progress

    from docagent_rl.documents.ray_pool import RayPool
    from docagent_rl.documents.workers import WorkerPool

SMALLEST = 16
LARGEST = 1024
"""Limits of the side of a thumbnail's square, in pixels."""
_PAGES_A_TASK = 64
_CAPACITY = CAPACITY_MIB << 20
_MOST = _CAPACITY // 4 * 3
"""Bytes of thumbnails to draw: a part of the cache with more files than others drops the oldest."""


@dataclass(frozen=True, slots=True)
class ThumbnailTask:
    """A range of pages of a stored document, and the squares of the thumbnails to draw."""

    store: Path
    doc_id: str
    pages: range
    """Page numbers, 1-based."""
    cells: tuple[int, ...]


def check_cells(cells: Sequence[int]) -> None:
    """Check the sides of squares.

    Raises:
        UserError: One is out of range.
    """
    for cell in cells:
        if not SMALLEST <= cell <= LARGEST:
            raise UserError(f"thumbnails of {cell} pixels: expected {SMALLEST} to {LARGEST}")


def draw_missing(
    layout: StoreLayout, cells: Sequence[int], pool: WorkerPool | RayPool, bars: Progress
) -> int:
    """Draw the thumbnails of all documents that are not cached yet; return how many were drawn.

    Raises:
        UserError: The cache cannot hold them or cannot be written, or a page is damaged.
    """
    if not cells:
        return 0
    pages = _count_pages(layout, cells)
    bar = bars.add_task("Drawing thumbnails", total=pages)
    drawn = 0
    with closing(pool.run(draw_thumbnails, _tasks(layout, tuple(cells)))) as outcomes:
        for outcome in outcomes:
            drawn += outcome.value()
            bars.advance(bar, len(outcome.task.pages))
    return drawn


def _count_pages(layout: StoreLayout, cells: Sequence[int]) -> int:
    """Return the number of pages in a store, whose thumbnails the cache can hold."""
    pages = size = 0
    for manifest in layout.sound_manifests():
        pages += len(manifest.pages)
        size += sum(
            shown_bytes(thumbnail_size((page.width, page.height), cell))
            for page in manifest.pages
            for cell in cells
        )
    if size > _MOST:
        raise UserError(
            f"thumbnails of {pages} pages take {size >> 20} MiB, more than the {_MOST >> 20} MiB "
            f"that {shown_folder(layout.root)} keeps for them: draw them with fewer or smaller "
            "sizes; the documents are stored"
        )
    return pages


def _tasks(layout: StoreLayout, cells: tuple[int, ...]) -> Iterator[ThumbnailTask]:
    for manifest in layout.sound_manifests():
        for first in range(1, len(manifest.pages) + 1, _PAGES_A_TASK):
            end = min(first + _PAGES_A_TASK, len(manifest.pages) + 1)
            yield ThumbnailTask(layout.root, manifest.doc_id, range(first, end), cells)


def draw_thumbnails(task: ThumbnailTask) -> int:
    """Draw the thumbnails of a range of pages that are not cached; return how many were drawn.

    Raises:
        UserError: The cache cannot be written, or a page is damaged.
    """
    folder = shown_folder(task.store)
    cache = ShownRasters([folder], capacity=_CAPACITY)
    document = DocumentStore(task.store, image_cache=0).document(task.doc_id)
    drawn = 0
    for number in task.pages:
        begin_part(f"the thumbnail of page {number}")
        page = document.page(number)
        missing = [
            size for size in _sizes(page, task.cells) if cache.get(_name(page, size), size) is None
        ]
        if not missing:
            continue
        image = page.image()
        for size in missing:
            if not cache.put(_name(page, size), resized(image, size, Resample.LANCZOS)):
                raise UserError(
                    f"thumbnails cannot be written to {folder}: make it writable, or free some "
                    "space; the documents are stored"
                )
        drawn += len(missing)
    return drawn


def _sizes(page: Page, cells: Sequence[int]) -> list[Size]:
    """Return the different sizes of a page's thumbnails; the page's own size is not cached."""
    sizes = dict.fromkeys(thumbnail_size(page.size, cell) for cell in cells)
    return [size for size in sizes if size != page.size]


def _name(page: Page, size: Size) -> str:
    return shown_name(page.image_hash, page.size, size, Resample.LANCZOS)
