"""The formula of BM25: its settings, and the library that computes it.

The variant is Lucene's (Kamphuis et al., "Which BM25 Do You Mean?", ECIR 2020, table 1). Each
occurrence of a token t in the query adds
`ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (k1 * (1 - b + b * dl / avgdl) + tf)`, where N counts
pages, df pages that hold t, tf t on the page, dl tokens of the page; avgdl is the mean of dl.
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
    """Import bm25s, without JAX, and with no more to say than other libraries.

    bm25s 0.3 tries JAX's top-k as it is imported, and JAX then takes three quarters of a GPU's
    memory for itself, in each process that searches (seen on an H100).
    """
    with _import_lock:
        hidden = sys.modules.get("jax")
        sys.modules["jax"] = cast(ModuleType, None)  # an import of it fails
        try:
            import bm25s
        finally:
            if hidden is None:
                del sys.modules["jax"]
            else:
                sys.modules["jax"] = hidden
    # it asks for DEBUG as it is imported, and verl's handler writes whatever it is given
    logging.getLogger("bm25s").setLevel(logging.NOTSET)
    return bm25s


@dataclass(frozen=True, slots=True)
class BM25Settings:
    """Settings of a BM25 index."""

    k1: float = 1.5
    """How slowly the weight of a word saturates as it is repeated; 0 or more."""
    b: float = 0.75
    """How strongly long pages are discounted; from 0 (not at all) to 1 (in full)."""
    stemmer: Stemmer = Stemmer.ENGLISH
    """Stemmer of the words; none for other languages."""
