"""A fast encoder of hashed words."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from PIL import Image
from pydantic import RootModel

from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.local import PageInput
from docagent_rl.retrieval.vectors.encoding import EncoderFactory, PageVectors


class HashingEncoder:
    """An encoder with a vector of length 1 per word, derived from it; for images, one per corner's
    colour.
    """

    dim, batch_size = 16, 8

    def __init__(
        self, *, content: PageContent = PageContent.TEXT, salt: str = "", dim: int = 16
    ) -> None:
        self.content, self._salt, self.dim = content, salt, dim
        self.spec = RootModel[dict[str, str]](
            {"content": content.value, "salt": salt, "dim": str(dim)}
        )
        self.fingerprint = hashlib.sha256(self.spec.model_dump_json().encode()).hexdigest()

    def encode_pages(self, pages: Sequence[str] | Sequence[Image.Image]) -> list[np.ndarray]:
        return [self._vectors(page) for page in pages]

    def encode_windows(self, windows: Iterable[Sequence[PageInput]]) -> Iterator[list[np.ndarray]]:
        return (self.encode_pages([page.content() for page in window]) for window in windows)

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        return [self._vectors(query) for query in queries]

    def _vectors(self, page: str | Image.Image) -> np.ndarray:
        if isinstance(page, Image.Image):
            corners = [(x, y) for x in (0, page.width - 1) for y in (0, page.height - 1)]
            words = [str(page.getpixel(corner)) for corner in corners]
        else:
            words = page.split()
        seeds = [hashlib.sha256((self._salt + word).encode()).digest()[:8] for word in words]
        rows = np.zeros((len(words), self.dim), np.float32)
        for row, seed in zip(rows, seeds, strict=True):
            row[:] = np.random.default_rng(int.from_bytes(seed, "little")).standard_normal(self.dim)
            row /= np.linalg.norm(row)
        return rows


def hashing(**options: object) -> EncoderFactory:
    """Return a factory of the encoder that can be pickled."""
    return partial(HashingEncoder, **options)


def vectors(**options: object) -> PageVectors:
    """Return the vectors of such an encoder, computed in this process."""
    return PageVectors(hashing(**options))
