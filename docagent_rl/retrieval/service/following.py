"""A retriever that follows its indexes: one that is replaced on disk is opened anew."""

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
"""Seconds between two looks at the indexes."""
_AGAIN_S = 10.0
"""Seconds after which an index that could not be opened is tried again, unless it is replaced
before.
"""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """A retriever with what its server says of it."""

    retriever: Retriever
    info: Info


class FollowingRetriever:
    """A `Retriever` by the indexes in some folders as they are now.

    A thread looks at their headers, whose replacement is the swap of an index, and opens the
    retriever anew. Searches go on by the former one meanwhile, and after that where the new one
    cannot be opened.

    Args:
        opened: opens the retriever; its first call, by which this is made, may raise.
        indexes: the folders of its indexes.
    """

    def __init__(self, opened: Callable[[], Opened], indexes: Iterable[Path]) -> None:
        self._open = opened
        self._headers = [folder / HEADER for folder in indexes]
        self._stamps = self._look()  # before it is opened: a swap meanwhile is one that is seen
        self._now = opened()
        threading.Thread(target=self._follow, name="docagent-following", daemon=True).start()

    @property
    def info(self) -> Info:
        """The contents of the index that is searched now."""
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
            except OSError:  # taken away, or a disk that is not there: what was opened stays
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
            except Exception as error:  # whatever a retriever raises: the former one answers
                failed_at = time.monotonic()
                logger.warning(
                    "the former index is served on, as the new one cannot be opened: %s", error
                )
            else:
                logger.warning("the index was replaced: %d pages are served", self._now.info.pages)
