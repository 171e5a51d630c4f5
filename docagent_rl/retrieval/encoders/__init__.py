"""Models that turn pages and queries into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from PIL import Image

from docagent_rl.documents.store import PageContent


class Encoder(Protocol):
    """A model that encodes queries; one vector each (dense), or one a token (late interaction).

    A page's score for a query is `sum over query vectors of max over page vectors of their dot product`
    (ColBERT, Khattab and Zaharia 2020, eq. 3), which is the dot product itself where both have one vector.

    Implementations may be called from several threads at once.
    """

    content: PageContent
    """The contents of a page that it is compared with: its picture or its text."""
    dim: int
    """Length of a vector."""
    fingerprint: str
    """SHA-256 of all that decides over vectors: weights, tokenizer, prompts, pooling, resolution, precision.
    Vectors of encoders with the same fingerprint may be compared."""

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """Encode queries: for each float32 of shape (t, dim), t >= 1."""
        ...


class PageEncoder(Encoder, Protocol):
    """A model that encodes pages too.

    A page that is longer than a dense text encoder takes has a vector a passage.
    """

    def encode_pages(self, pages: Sequence[str] | Sequence[Image.Image]) -> list[np.ndarray]:
        """Encode pages: for each float32 of shape (n, dim), n >= 0; none for a page without text.

        What a page's vectors are does not depend on the pages around it.
        """
        ...
