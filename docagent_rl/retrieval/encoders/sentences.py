"""Text encoders with sentence-transformers: of passages, and of tokens (ColBERT)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.base.progress_bars import without_progress_bars
from docagent_rl.retrieval.encoders.checkpoints import MODULES, read_json
from docagent_rl.retrieval.encoders.local import TextEncoder, Texts, fill_prompt

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder, SentenceTransformer

_LONGEST = 8192
"""Maximum tokens of a passage, for models that state no limit."""
_STANFORD = "HF_ColBERT"


class DenseEncoder(TextEncoder):
    """A `TextEncoder` with one vector per passage; texts that are too long have several passages.

    Raises:
        UserError: See `LocalModel`; or the checkpoint contains its own code, or does not specify
            its pooling.
    """

    _model: SentenceTransformer

    def _load(self) -> int:
        from sentence_transformers import SentenceTransformer

        _check_modules(self.folder, self._named)
        with without_progress_bars():
            self._model = SentenceTransformer(str(self.folder), **self._options(self.spec.dtype))
        self._model.eval()
        if self.spec.bidirectional:
            attend_both_ways(self._model)
        self._texts = Texts(self._model.tokenizer)
        self._prepare_lengths()
        return int(self._model.get_embedding_dimension() or 0)

    def _prepare_lengths(self) -> None:
        """Compute how many tokens special tokens and prompts leave for texts."""
        tokenizer: Any = self._model.tokenizer
        stated = self._model.max_seq_length or _LONGEST
        limit = min(stated, _LONGEST, self.spec.page_tokens or _LONGEST)
        special = tokenizer.num_special_tokens_to_add()
        self._room = limit - special - self._texts.count(fill_prompt(self.spec.page_prompt, ""))
        self._query_room = (
            min(stated, _LONGEST)
            - special
            - self._texts.count(fill_prompt(self.spec.query_prompt, ""))
        )
        if min(self._room, self._query_room) < 8:
            raise UserError(
                f"{self._named}: only {self._room} of {limit} tokens are left for the text; set "
                "page_tokens"
            )

    def _passages(self, texts: list[str]) -> list[np.ndarray]:
        return self._encode(texts)

    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        cut = [self._texts.cut(text, self._query_room) for text in texts]
        return self._encode([fill_prompt(self.spec.query_prompt, text) for text in cut])

    def _encode(self, texts: list[str]) -> list[np.ndarray]:
        vectors = self._model.encode(
            texts,
            prompt="",  # prompts are in the texts already; this prevents the checkpoint's own
            batch_size=len(texts),
            show_progress_bar=False,
            convert_to_tensor=True,
        )
        return list(vectors.float().cpu().numpy()[:, None])


def attend_both_ways(model: SentenceTransformer) -> None:
    """Make a causal text model attend in both directions.

    Both switches are needed: without padding, transformers drops the mask and the layers' own
    switches decide.
    """
    inner = model.transformers_model
    if inner is None:
        return
    inner.config.is_causal = False
    for module in cast("Iterable[Any]", inner.modules()):
        if hasattr(module, "is_causal"):
            module.is_causal = False


def _modules(folder: Path) -> list[str]:
    """Return the classes in a checkpoint's modules.json; none if it has no such file."""
    modules = read_json(folder / MODULES).get("list", [])
    return [str(module.get("type")) for module in modules if isinstance(module, dict)]


def _check_modules(folder: Path, named: str) -> None:
    modules = _modules(folder)
    if not modules:  # otherwise, sentence-transformers would take the mean
        raise UserError(
            f"{named} has no {MODULES}, which specifies how tokens are pooled to one vector: add it"
        )
    foreign = [
        name for name in modules if not name.startswith(("sentence_transformers.", "pylate."))
    ]
    if foreign:
        raise UserError(
            f"{named} needs its own code ({foreign[0]}), which is not run here: for Qwen2-VL "
            "models such as vdr-2b and gme, set family=qwen2_vl"
        )


class LateTextEncoder(TextEncoder):
    """A `TextEncoder` with one vector per token (ColBERT).

    Markers, the padding of queries with [MASK] and skipped punctuation are those of the checkpoint.
    A page that is too long is split into passages. It has the vectors of all of them, so each token
    of a query finds the best token of the page.
    """

    _model: MultiVectorEncoder

    def _load(self) -> int:
        from sentence_transformers import MultiVectorEncoder

        config = read_json(self.folder / "config.json")
        stanford = _STANFORD in (config.get("architectures") or ())
        kinds = _modules(self.folder)
        if not stanford and not any(kind.endswith(("Dense", "MultiVectorMask")) for kind in kinds):
            # otherwise, sentence-transformers would add a randomly initialised projection
            raise UserError(
                f"{self._named} is not a late-interaction model: it has neither a projection of "
                f"tokens in {MODULES} nor the architecture {_STANFORD}"
            )
        if self.spec.query_prompt or self.spec.page_prompt:
            raise UserError(
                f"{self._named}: family colbert uses the checkpoint's prompts: leave out "
                "query_prompt and page_prompt"
            )
        with without_progress_bars():
            self._model = MultiVectorEncoder(str(self.folder), **self._options(self.spec.dtype))
        self._model.eval()
        self._texts = Texts(self._model.tokenizer)
        # the marker of pages, and one token of tolerance: a text that is cut may have another token
        # at its edge
        special = self._model.tokenizer.num_special_tokens_to_add() + 2
        self._room = min(self._limit(), self.spec.page_tokens or self._limit()) - special
        return int(self._model.get_embedding_dimension() or 0)

    def _limit(self) -> int:
        stated = getattr(self._model[0], "document_length", None) or self._model.max_seq_length
        return int(stated or 512)

    def _passages(self, texts: list[str]) -> list[np.ndarray]:
        return self._encode(self._model.encode_document, texts)

    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        return self._encode(self._model.encode_query, texts)

    def _encode(self, encode: Callable[..., Any], texts: list[str]) -> list[np.ndarray]:
        found = encode(texts, batch_size=len(texts), show_progress_bar=False)
        return [each.float().cpu().numpy() for each in found]
