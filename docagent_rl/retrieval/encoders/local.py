"""Base classes of encoders that run in this process, and the preparation of their inputs."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import encodable
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.batches import Batches
from docagent_rl.retrieval.encoders.checkpoints import digest, model_folder
from docagent_rl.retrieval.encoders.devices import ModelThread
from docagent_rl.retrieval.encoders.spec import PLACE, EncoderSpec

if TYPE_CHECKING:
    from docagent_rl.retrieval.rerank.spec import RerankerSpec

# replaced by spaces, since tokenizers drop these characters and would join the words around them
_BREAKS = dict.fromkeys(map(ord, "\0\x0b\x0c\x1c\x1d\x1e\x1f\x85"), " ")
_OVERLAP = 32
"""Number of tokens that neighbouring passages share."""
_SMALLEST = 28
"""Minimum side of an image in pixels: one patch of Qwen2-VL."""
_SLIMMEST = 100
"""Maximum ratio of an image's sides; Qwen2-VL's processor refuses more than 200."""
_READERS = 4
"""Number of threads that decode pictures."""


class Texts:
    """The preparation of texts of pages and queries with a fast tokenizer of transformers.

    `others` are tokens that a processor replaces, such as the image token.
    """

    def __init__(self, tokenizer: Any, others: Iterable[str] = ()) -> None:
        # fast tokenizers are not thread-safe: this copy is used under a lock, and the original only
        # in the model's thread
        self._tokenizer = copy.deepcopy(tokenizer)
        self._lock = threading.Lock()
        # added tokens that are not special may be words: Gemma's are "<table>" and runs of blanks
        added = (str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
        known = {*tokenizer.all_special_tokens, *added, *others}
        # longest first, since one may be a prefix of another
        names = sorted((name for name in known if name.strip()), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, names))) if names else None

    def plain(self, text: str) -> str:
        """Return the text without special tokens, so a query cannot contain the image token.

        Spellings of special tokens are broken up and not dropped, so that queries that differ in
        them stay different, as they are when queries are compared by their words.
        """
        text = encodable(text).translate(_BREAKS)
        if self._special is None:
            return text
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def count(self, text: str) -> int:
        """Count the tokens of a text, without special tokens."""
        return len(self._offsets(text))

    def cut(self, text: str, room: int) -> str:
        """Truncate a text to at most `room` tokens."""
        if len(text) <= room:  # a token has at least one character
            return text
        offsets = self._offsets(text)
        return text if len(offsets) <= room else text[: offsets[room - 1][1]]

    def passages(self, text: str, room: int) -> list[str]:
        """Split a text into passages of at most `room` tokens; a blank text has none.

        Neighbouring passages share 32 tokens, or half of the room if that is less.
        """
        offsets = self._offsets(text)
        overlap = min(_OVERLAP, room // 2)
        if len(offsets) <= room:
            return [text] if text.strip() else []
        starts = range(0, len(offsets) - overlap, room - overlap)
        pieces = [
            text[offsets[start][0] : offsets[start : start + room][-1][1]] for start in starts
        ]
        return [piece for piece in pieces if piece.strip()]

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        # not verbose, since callers deal with long texts, about which the tokenizer would warn
        with self._lock:
            found = self._tokenizer(
                text,
                add_special_tokens=False,
                return_offsets_mapping=True,
                truncation=False,
                verbose=False,
            )
        return found["offset_mapping"]


def fill_prompt(prompt: str | None, text: str) -> str:
    """Insert a text into its prompt, if any."""
    if prompt is None:
        return text
    before, after = prompt.split(PLACE)
    return before + text + after


class LocalModel(ABC):
    """A model in this process, which runs one task after the other.

    `batch_size` is the number of items per batch, `threads` the number of torch threads on the CPU;
    `named` is the model's setting, for messages.

    Raises:
        UserError: The model does not exist or is of another family, or there is no such device.
    """

    def __init__(
        self,
        spec: EncoderSpec | RerankerSpec,
        *,
        device: str | None = None,
        batch_size: int = 8,
        threads: int | None = None,
        named: str = "model",
    ) -> None:
        self.folder = model_folder(spec.model, spec.revision, named=named)
        self._named = f"{named}={spec.model}"
        self._batches = Batches(batch_size, self._named)
        self._thread = ModelThread(device, threads, f"device of {self._named}")

    def _options(self, dtype: str) -> dict[str, Any]:
        """Return the arguments with which sentence-transformers loads the model."""
        import torch

        options = {"device": str(self._thread.device), "local_files_only": True}
        return {**options, "model_kwargs": {"dtype": getattr(torch, dtype)}}

    def _loaded(self, family: str) -> Any:
        try:
            return self._thread(self._load)
        except UserError:
            raise
        except Exception as error:  # libraries may raise anything for other files
            raise UserError(
                f"{self._named}: {self.folder} cannot be loaded as {family}: "
                f"{type(error).__name__}: {error}"
            ) from error

    @abstractmethod
    def _load(self) -> Any:
        """Load the model's files."""


@dataclass(frozen=True, slots=True)
class PageInput:
    """A page to encode.

    Args:
        name: name of the page, for messages.
        pixels: number of pixels of its picture; 0 if its text is encoded.
        read: returns the picture or the text; called every time the page is prepared.
    """

    name: str
    pixels: int
    read: Callable[[], Image.Image | str]

    def content(self) -> Any:
        """Return the page's picture or text.

        Raises:
            UserError: It cannot be read; the message names the page.
        """
        try:
            return self.read()
        except UserError as error:
            raise UserError(f"{self.name}: {error}") from error


class LocalEncoder(LocalModel):
    """An `Encoder` in this process, which also encodes pages; see `LocalModel`."""

    def __init__(self, spec: EncoderSpec, *, named: str = "model", **options: Any) -> None:
        super().__init__(spec, named=named, **options)
        self.spec = pin_weights(spec, digest(self.folder), named)
        self.fingerprint = fingerprint(self.spec)
        self.content: PageContent = spec.content
        self._texts: Texts
        self.dim: int = self._loaded(spec.family)

    @property
    def batch_size(self) -> int:
        """Maximum number of pages, passages or queries per batch."""
        return self._batches.size

    def encode_pages(self, pages: Sequence[str] | Sequence[Image.Image]) -> list[np.ndarray]:
        """Return the vectors of each page, float32 of shape (n, dim), n >= 0.

        A page without text has no vectors. A page's vectors do not depend on other pages. If a text
        is too long for a dense encoder, each of its passages has a vector.
        """
        (found,) = self.encode_windows(
            [[_given(page, number) for number, page in enumerate(pages, 1)]]
        )
        return found

    @abstractmethod
    def encode_windows(self, windows: Iterable[Sequence[PageInput]]) -> Iterator[list[np.ndarray]]:
        """Yield the vectors of the pages of each window, as `encode_pages` returns them.

        Within a window, pages of similar size share a batch, to keep padding small.

        Raises:
            UserError: A page cannot be read, or its vectors are not finite; the message names it.
        """

    def encode_queries(self, queries: Sequence[str]) -> list[np.ndarray]:
        """See `Encoder.encode_queries`."""
        texts = [
            self._texts.cut(self._texts.plain(query), self.spec.query_tokens) for query in queries
        ]
        return self._batches.run(texts, len, self._queries_of)

    def _queries_of(self, texts: list[str]) -> list[np.ndarray]:
        found = self._thread(lambda: self._queries(texts))
        return [normalise(each, self.spec, self._named) for each in found]

    @abstractmethod
    def _load(self) -> int:
        """Load the model, set `_texts`, and return the length of a vector."""

    @abstractmethod
    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        """Return the vectors of a batch of queries; runs in the model's thread."""


class TextEncoder(LocalEncoder):
    """A `LocalEncoder` of texts, which are split into passages."""

    _room: int
    """Maximum number of tokens of a passage; set by subclasses."""

    def encode_windows(self, windows: Iterable[Sequence[PageInput]]) -> Iterator[list[np.ndarray]]:
        """See `LocalEncoder.encode_windows`."""
        none = np.zeros((0, self.dim), np.float32)
        for window in windows:
            split = [self._split(page) for page in window]
            passages = [passage for page in split for passage in page]
            vectors = iter(
                self._batches.run(passages, lambda passage: len(passage.text), self._vectors_of)
            )
            yield [np.concatenate([none, *(next(vectors) for _ in page)]) for page in split]

    def _split(self, page: PageInput) -> list[_Passage]:
        found = self._texts.passages(self._texts.plain(page.content()), self._room)
        return [
            _Passage(page.name, fill_prompt(self.spec.page_prompt, passage)) for passage in found
        ]

    def _vectors_of(self, batch: list[_Passage]) -> list[np.ndarray]:
        found = self._thread(lambda: self._passages([passage.text for passage in batch]))
        pairs = zip(batch, found, strict=True)
        return [
            normalise(each, self.spec, f"{self._named} ({passage.page})") for passage, each in pairs
        ]

    @abstractmethod
    def _passages(self, texts: list[str]) -> list[np.ndarray]:
        """Return the vectors of a batch of passages; runs in the model's thread."""


@dataclass(frozen=True, slots=True)
class _Passage:
    """A passage in its prompt, and the name of its page."""

    page: str
    text: str


class PageImageEncoder(LocalEncoder):
    """A `LocalEncoder` of pictures, which threads read and prepare while the model works."""

    _processor: Any
    """The model's processor, set by subclasses. Each preparing thread has a copy of it, since
    tokenizers are not thread-safe.
    """

    def encode_windows(self, windows: Iterable[Sequence[PageInput]]) -> Iterator[list[np.ndarray]]:
        """See `LocalEncoder.encode_windows`.

        A window of n pages takes n / `batch_size` forward passes, rounded up.
        """
        return self._batches.stream(
            windows, lambda page: page.pixels, self._prepared, self._vectors_of
        )

    def _prepared(self, pages: list[PageInput]) -> Any:
        images = list(self._reading.map(lambda page: prepare_image(page.content()), pages))
        if not hasattr(self._copies, "processor"):
            self._copies.processor = copy.deepcopy(self._processor)
        return self._prepare(self._copies.processor, images)

    def _vectors_of(self, pages: list[PageInput], prepared: Any) -> list[np.ndarray]:
        found = self._thread(lambda: self._encode(prepared))
        pairs = zip(pages, found, strict=True)
        return [normalise(each, self.spec, f"{self._named} ({page.name})") for page, each in pairs]

    @cached_property
    def _reading(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_READERS, "reading")

    @cached_property
    def _copies(self) -> threading.local:
        return threading.local()

    @abstractmethod
    def _prepare(self, processor: Any, images: list[Image.Image]) -> Any:
        """Return the model's input for a batch of pictures; runs in any thread."""

    @abstractmethod
    def _encode(self, prepared: Any) -> list[np.ndarray]:
        """Return the vectors of a batch of pictures; runs in the model's thread."""


def _given(page: str | Image.Image, number: int) -> PageInput:
    """Return the input for a picture or a text in memory."""
    pixels = 0 if isinstance(page, str) else page.width * page.height
    return PageInput(f"page {number} of those given", pixels, lambda: page)


def pin_weights(spec: EncoderSpec, weights: str, named: str) -> EncoderSpec:
    """Return the specification with the digest of the model's files.

    Raises:
        UserError: It has the digest of other files already.
    """
    if spec.weights not in (None, weights):
        raise UserError(
            f"{named}={spec.model} is not the model with which the index was built (its files have "
            f"the digest {weights[:12]}, but the index needs {str(spec.weights)[:12]}): name that "
            "model, or rebuild the index"
        )
    return spec.model_copy(update={"weights": weights})


def fingerprint(spec: EncoderSpec) -> str:
    """Return the SHA-256 of everything on which vectors depend.

    This includes the model's weights and how it is used, but not its folder or name.
    """
    content = {**spec.vector_settings(), "weights": spec.weights}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def prepare_image(page: Image.Image) -> Image.Image:
    """Return a picture in RGB, with a white margin if it is too small or too slim."""
    page = page if page.mode == "RGB" else page.convert("RGB")
    width = max(page.width, _SMALLEST)
    height = max(page.height, _SMALLEST)
    # only the shorter side can grow: the longer one is at most `_SLIMMEST` times as long
    width, height = (
        max(width, math.ceil(height / _SLIMMEST)),
        max(height, math.ceil(width / _SLIMMEST)),
    )
    if (width, height) == page.size:
        return page
    framed = Image.new("RGB", (width, height), "white")
    framed.paste(page, (0, 0))
    return framed


def normalise(vectors: np.ndarray, spec: EncoderSpec, named: str) -> np.ndarray:
    """Return vectors as float32, scaled to length 1.

    Raises:
        UserError: They are not finite.
    """
    vectors = np.asarray(vectors, dtype=np.float32)
    if not np.isfinite(vectors).all():
        raise UserError(
            f"{named} returns vectors that are not finite with dtype={spec.dtype}: use bfloat16 or "
            "float32, and check the model's files"
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
