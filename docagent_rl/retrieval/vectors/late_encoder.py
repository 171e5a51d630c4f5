"""An encoder of queries that is not read before it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from PIL import Image

from docagent_rl.retrieval.encoders.base import Encoder
from docagent_rl.retrieval.vectors.index import VectorIndex


class LateEncoder:
    """That of an index, taken at the index's word until the first query: checks before a run read no weights.

    Args:
        index: of the pages.
        make: opens the encoder.
    """

    def __init__(self, index: VectorIndex, make: Callable[[], Encoder]) -> None:
        source = index.header.source
        self.content, self.dim, self.fingerprint = source.content, source.dim, source.encoder
        self._make = make

    @cached_property
    def _encoder(self) -> Encoder:
        return self._make()

    def encode_pages(self, pages: Sequence[str] | Sequence[Image.Image]) -> list[np.ndarray]:
        """See `Encoder.encode_pages`."""
        return self._encoder.encode_pages(pages)

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`."""
        return self._encoder.encode_queries(queries)
