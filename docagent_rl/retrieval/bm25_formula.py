"""The formula of BM25: its settings, and the library that computes it.

The variant is Lucene's (Kamphuis et al., "Which BM25 Do You Mean?", ECIR 2020, table 1). Each
occurrence of a token t in the query adds
`ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (k1 * (1 - b + b * dl / avgdl) + tf)`, where N is the
number of pages, df the number of pages that contain t, tf the number of occurrences of t on the
page, dl the number of tokens on the page, and avgdl the mean of dl.
"""

import logging
import sys
import threading
from dataclasses import dataclass
from types import ModuleType
from typing import cast

from docagent_rl.retrieval.tokens import Stemmer

_import_lock = threading.Lock()


def load_bm25s() -> ModuleType:
    """Import bm25s without JAX, and with the usual level of logging.

    bm25s 0.3 tries JAX's top-k when it is imported, and JAX then reserves three quarters of a GPU's
    memory, in each process that searches (seen on an H100).
    """
    with _import_lock:
        hidden = sys.modules.get("jax")
        sys.modules["jax"] = cast(ModuleType, None)  # makes `import jax` fail
        try:
            import bm25s
        finally:
            if hidden is None:
                del sys.modules["jax"]
            else:
                sys.modules["jax"] = hidden
    # bm25s sets the level to DEBUG when it is imported, and verl's handler writes everything
    logging.getLogger("bm25s").setLevel(logging.NOTSET)
    return bm25s


@dataclass(frozen=True, slots=True)
class BM25Settings:
    """Settings of a BM25 index."""

    k1: float = 1.5
    """The larger, the more repeated occurrences of a term add to the score; at least 0."""
    b: float = 0.75
    """The strength of the discount of long pages, from 0 (none) to 1 (full)."""
    stemmer: Stemmer = Stemmer.ENGLISH
    """Stemmer of the terms; use none for languages other than English."""
