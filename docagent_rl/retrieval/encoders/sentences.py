"""Encoders by sentence-transformers: of passages, and of the tokens of texts (ColBERT)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.checkpoints import MODULES, read_json
from docagent_rl.retrieval.encoders.local import TextEncoder, Texts, fill_prompt

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder, SentenceTransformer

_LONGEST = 8192
"""Tokens of a passage, of models that state no limit."""
_STANFORD = "HF_ColBERT"


class DenseEncoder(TextEncoder):
    """See `TextEncoder`. A text that is longer than the model takes is several passages, with a
    vector each.

    Raises:
        UserError: also, the checkpoint runs code of its own, or does not say how it pools.
    """

    _model: SentenceTransformer

    def _load(self) -> int:
        from sentence_transformers import SentenceTransformer

        _check_modules(self.folder, self._named)
        self._model = SentenceTransformer(str(self.folder), **self._options(self.spec.dtype))
        self._model.eval()
        if self.spec.bidirectional:
            attend_both_ways(self._model)
        self._texts = Texts(self._model.tokenizer)
        self._prepare_lengths()
        return int(self._model.get_embedding_dimension() or 0)

    def _prepare_lengths(self) -> None:
        """Count the tokens of a text that fit beside special ones and those of the prompt."""
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
                f"{self._named}: of {limit} tokens {self._room} are left for the text; set "
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
            prompt="",  # prompts are in the texts already; the checkpoint's own would come on top
            batch_size=len(texts),
            show_progress_bar=False,
            convert_to_tensor=True,
        )
        return list(vectors.float().cpu().numpy()[:, None])


def attend_both_ways(model: SentenceTransformer) -> None:
    """Make a causal text model attend to what follows too.

    Both switches are needed: where nothing is padded, transformers drops the mask and the layers
    decide.
    """
    inner = model.transformers_model
    if inner is None:
        return
    inner.config.is_causal = False
    for module in cast("Iterable[Any]", inner.modules()):
        if hasattr(module, "is_causal"):
            module.is_causal = False


def _modules(folder: Path) -> list[str]:
    """Return the classes of a checkpoint's modules.json; none where it has no such file."""
    modules = read_json(folder / MODULES).get("list", [])
    return [str(module.get("type")) for module in modules if isinstance(module, dict)]


def _check_modules(folder: Path, named: str) -> None:
    modules = _modules(folder)
    if not modules:  # sentence-transformers would take the mean
        raise UserError(
            f"{named} has no {MODULES}, which says how tokens become one vector: add one"
        )
    foreign = [
        name for name in modules if not name.startswith(("sentence_transformers.", "pylate."))
    ]
    if foreign:
        raise UserError(
            f"{named} runs code of its own ({foreign[0]}), which is not done here: Qwen2-VL models "
            "such as "
            "vdr-2b and gme are read by family=qwen2_vl"
        )


class LateTextEncoder(TextEncoder):
    """See `TextEncoder`. Markers, padding of queries by [MASK] and skipped punctuation are the
    checkpoint's.

    A page that is longer than the model takes is several passages; its vectors are those of all of
    them, so that each token of a query finds the best token of the page.
    """

    _model: MultiVectorEncoder

    def _load(self) -> int:
        from sentence_transformers import MultiVectorEncoder

        config = read_json(self.folder / "config.json")
        stanford = _STANFORD in (config.get("architectures") or ())
        kinds = _modules(self.folder)
        if not stanford and not any(kind.endswith(("Dense", "MultiVectorMask")) for kind in kinds):
            # sentence-transformers would add one drawn at random
            raise UserError(
                f"{self._named} is no late-interaction model: it has neither a projection of "
                "tokens in "
                f"{MODULES} nor the architecture {_STANFORD}"
            )
        if self.spec.query_prompt or self.spec.page_prompt:
            raise UserError(f"{self._named}: prompts of the family colbert are the checkpoint's")
        self._model = MultiVectorEncoder(str(self.folder), **self._options(self.spec.dtype))
        self._model.eval()
        self._texts = Texts(self._model.tokenizer)
        # the marker of pages, and one token of grace: a piece can be another token at its edge
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
