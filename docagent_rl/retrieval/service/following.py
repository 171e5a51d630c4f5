"""A retriever that opens its indexes again when they are replaced on disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.retrieval.base import Hit, Pages, Retriever
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.service.wire import Info

LOOK_S = 0.5
"""Seconds between checks of the indexes."""
_AGAIN_S = 10.0
"""Seconds after which opening an index is retried, unless it is replaced before."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """A retriever, and the information that its server returns about it."""

    retriever: Retriever
    info: Info


class FollowingRetriever:
    """A `Retriever` that always uses the latest indexes in some folders.

    A thread watches the headers of the indexes, which are replaced when an index is, and opens the
    retriever again. Meanwhile, searches use the former retriever, and also afterwards if the new
    one cannot be opened.

    Args:
        opened: opens the retriever. The constructor makes the first call, and may raise its errors.
        indexes: the folders of its indexes.
    """

    def __init__(self, opened: Callable[[], Opened], indexes: Iterable[Path]) -> None:
        self._open = opened
        self._headers = [folder / HEADER for folder in indexes]
        self._stamps = self._look()  # taken before it is opened, to notice a swap meanwhile
        self._now = opened()
        threading.Thread(target=self._follow, name="docagent-following", daemon=True).start()

    @property
    def info(self) -> Info:
        """Information about the index that is used now."""
        return self._now.info

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`."""
        return self._now.retriever.search(queries, doc_id=doc_id, top_k=top_k, exclude=exclude)

    def _look(self) -> list[tuple[int, int, int] | None]:
        found = []
        for path in self._headers:
            try:
                status = path.stat()
                found.append((status.st_ino, status.st_mtime_ns, status.st_size))
            except OSError:  # the index was removed, or its disk is missing: keep the open one
                found.append(None)
        return found

    def _follow(self) -> None:
        failed_at = 0.0
        while True:
            time.sleep(LOOK_S)
            stamps = self._look()
            waits = failed_at and time.monotonic() - failed_at < _AGAIN_S
            if None in stamps or (stamps == self._stamps and (waits or not failed_at)):
                continue
            self._stamps = stamps
            failed_at = 0.0
            try:
                self._now = self._open()
            except Exception as error:  # retrievers may raise anything; keep the former one
                failed_at = time.monotonic()
                logger.warning(
                    "the new index cannot be opened, so the former one is still served: %s", error
                )
            else:
                logger.warning("the index was replaced: serving %d pages", self._now.info.pages)
