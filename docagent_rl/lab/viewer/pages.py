"""Pages of documents and their sizes, with a store or without one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.rollout.evidence import images_of

Size = tuple[int, int]


class PageSizes:
    """Sizes of raw pages: the store's, else what a session says of them.

    Args:
        store: of the documents.
        session: as recorded.
    """

    def __init__(self, store: DocumentStore | None, session: Mapping[str, Any]) -> None:
        self._store = store
        self._known: dict[str, Size | None] = {}
        self._guessed: dict[str, Size] = {}
        for image in pieces_of(session):
            page, raster = str(image.get("page")), image.get("raster")
            if isinstance(raster, Sequence) and len(raster) == 4:
                width, height = self._guessed.get(page, (0, 0))
                # whole pages are shown before parts of them: the furthest corner is that of the page
                self._guessed[page] = max(width, int(raster[2])), max(height, int(raster[3]))

    def of(self, page: str) -> Size | None:
        """Width and height in pixels; `None` where nobody knows."""
        if page not in self._known:
            self._known[page] = self._stored(page) or self._guessed.get(page)
        return self._known[page]

    def fractions(self, page: str, raster: Any) -> list[float] | None:
        """A rectangle of raw pixels as fractions of the page's sides."""
        size = self.of(page)
        if size is None or not all(size) or not isinstance(raster, Sequence) or len(raster) != 4:
            return None
        width, height = size
        left, top, right, bottom = raster
        return [left / width, top / height, right / width, bottom / height]

    def _stored(self, page: str) -> Size | None:
        if self._store is None:
            return None
        try:
            return self._store.page(PageRef.parse(page)).size
        except UserError:
            return None


def pieces_of(session: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every reference to a page in the images of a session, those on sheets too."""
    for messages in (session.get("prompt"), *(turn.get("observation") for turn in session["turns"])):
        for image in images_of(messages):
            if "tiles" in image:
                yield from (tile["image"] for tile in image["tiles"])
            else:
                yield image


def length_of(store: DocumentStore | None, doc_id: str) -> int | None:
    """Pages of a document; `None` where the store does not know it."""
    if store is None or doc_id not in store:
        return None
    try:
        return store.document(doc_id).num_pages
    except UserError:
        return None
