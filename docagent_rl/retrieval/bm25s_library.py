"""bm25s, imported when it is used: it brings numba along."""

from __future__ import annotations

import logging
from types import ModuleType


def load_bm25s() -> ModuleType:
    """The library, which says what it does at DEBUG, whatever the level of others, as long as nobody asks."""
    import bm25s

    logger = logging.getLogger("bm25s")
    if logger.level == logging.DEBUG:
        logger.setLevel(logging.WARNING)
    return bm25s
