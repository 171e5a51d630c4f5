"""Encoders by sentence-transformers: of passages and pictures, and of the tokens of texts (ColBERT)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.encoders.checkpoints import MODULES, read_json
from docagent_rl.retrieval.encoders.local import LocalEncoder, Texts, fill_prompt
from docagent_rl.retrieval.encoders.spec import Pooling

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder, SentenceTransformer

_LONGEST = 8192
"""Tokens of a passage, of models that state no limit."""
_STANFORD = "HF_ColBERT"


class DenseEncoder(LocalEncoder):
    """See `LocalEncoder`. A text that is longer than the model takes is several passages, with a vector each.

    Raises:
        UserError: also, the checkpoint runs code of its own, or pools otherwise than the specification says.
    """

    _model: SentenceTransformer

    def _load(self) -> int:
        from sentence_transformers import SentenceTransformer

        options = self._options(self.spec.dtype)
        if (self.folder / MODULES).is_file():
            _check_modules(read_json(self.folder / MODULES)["list"], self._named)
            self._model = SentenceTransformer(str(self.folder), **options)
            self._check_pooling()
        else:
            device, given = options["device"], options["model_kwargs"]
            self._model = SentenceTransformer(modules=self._modules(given), device=device)
        self._model.eval()
        if self.spec.bidirectional:
            attend_both_ways(self._model)
        self._texts = Texts(_tokenizer(self._model))
        self._prepare_lengths()
        dim = self._model.get_embedding_dimension()
        return self._kept(dim)

    def _modules(self, options: dict[str, Any]) -> list[Any]:
        from sentence_transformers.sentence_transformer.modules import Pooling as Pool
        from sentence_transformers.sentence_transformer.modules import Transformer

        if self.spec.pooling is Pooling.CHECKPOINT:
            raise UserError(
                f"{self._named} has no {MODULES}, which would say how tokens become one vector: set pooling"
            )
        transformer = Transformer(str(self.folder), model_kwargs={**options, "local_files_only": True})
        dim = transformer.get_embedding_dimension()
        return [transformer, Pool(dim, pooling_mode=self.spec.pooling.value)]

    def _check_pooling(self) -> None:
        if self.spec.pooling is Pooling.CHECKPOINT:
            return
        modes = [mode for module in self._model if (mode := getattr(module, "pooling_mode", None))]
        found = [str(mode) for mode in modes]
        if found and self.spec.pooling.value not in found:
            raise UserError(
                f"{self._named} pools by {found[0]}, not by {self.spec.pooling}: set pooling=checkpoint"
            )

    def _prepare_lengths(self) -> None:
        """Count the tokens of a text that fit beside special ones and those of the prompt."""
        tokenizer = _tokenizer(self._model)
        stated = self._model.max_seq_length or _LONGEST
        limit = min(stated, _LONGEST, self.spec.page_tokens or _LONGEST)
        special = tokenizer.num_special_tokens_to_add()
        self._room = limit - special - self._texts.count(fill_prompt(self.spec.page_prompt, ""))
        self._query_room = (
            min(stated, _LONGEST) - special - self._texts.count(fill_prompt(self.spec.query_prompt, ""))
        )
        if min(self._room, self._query_room) < 8:
            raise UserError(
                f"{self._named}: of {limit} tokens {self._room} are left for the text; set page_tokens"
            )

    def _pages(self, pages: Sequence[Any]) -> list[np.ndarray]:
        if self.content is PageContent.IMAGE:
            return self._images(pages, self._encode)
        return self._passages(pages, self._room, self._encode)

    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        cut = [self._texts.cut(text, self._query_room) for text in texts]
        return self._encode([fill_prompt(self.spec.query_prompt, text) for text in cut])

    def _encode(self, items: list[str] | list[Image.Image]) -> list[np.ndarray]:
        vectors = self._model.encode(
            items,
            prompt="",  # prompts are in the texts already; the checkpoint's own would come on top
            batch_size=len(items),
            show_progress_bar=False,
            convert_to_tensor=True,
        )
        return list(vectors.float().cpu().numpy()[:, None])


def attend_both_ways(model: SentenceTransformer) -> None:
    """Make a causal text model attend to what follows too.

    Both switches are needed: where nothing is padded, transformers drops the mask and the layers decide.
    """
    inner = model.transformers_model
    if inner is None:
        return
    inner.config.is_causal = False
    for module in cast("Iterable[Any]", inner.modules()):
        if hasattr(module, "is_causal"):
            module.is_causal = False


def _tokenizer(model: SentenceTransformer) -> Any:
    """Return the tokenizer, of a processor for several kinds of input too."""
    return getattr(model.tokenizer, "tokenizer", model.tokenizer)


def _check_modules(modules: Sequence[Any], named: str) -> None:
    foreign = [str(module.get("type")) for module in modules if isinstance(module, dict)]
    foreign = [name for name in foreign if not name.startswith(("sentence_transformers.", "pylate."))]
    if foreign:
        raise UserError(
            f"{named} runs code of its own ({foreign[0]}), which is not done here: Qwen2-VL models such as "
            "vdr-2b and gme are read by family=qwen2_vl"
        )


class LateTextEncoder(LocalEncoder):
    """See `LocalEncoder`. Markers, padding of queries by [MASK] and skipped punctuation are the checkpoint's.

    A page that is longer than the model takes is several passages; its vectors are those of all of them, so
    that each token of a query finds the best token of the page.
    """

    _model: MultiVectorEncoder

    def _load(self) -> int:
        from sentence_transformers import MultiVectorEncoder

        config = read_json(self.folder / "config.json")
        stanford = _STANFORD in (config.get("architectures") or ())
        modules = read_json(self.folder / MODULES).get("list", [])
        kinds = [str(each.get("type")) for each in modules if isinstance(each, dict)]
        if not stanford and not any(kind.endswith(("Dense", "MultiVectorMask")) for kind in kinds):
            # sentence-transformers would add one drawn at random
            raise UserError(
                f"{self._named} is no late-interaction model: it has neither a projection of tokens in "
                f"{MODULES} nor the architecture {_STANFORD}"
            )
        if self.spec.query_prompt or self.spec.page_prompt or self.spec.pooling is not Pooling.CHECKPOINT:
            raise UserError(f"{self._named}: prompts and pooling of the family colbert are the checkpoint's")
        self._model = MultiVectorEncoder(str(self.folder), **self._options(self.spec.dtype))
        self._model.eval()
        self._texts = Texts(self._model.tokenizer)
        # the marker of pages, and one token of grace: a piece can be another token at its edge
        special = self._model.tokenizer.num_special_tokens_to_add() + 2
        self._room = min(self._limit(), self.spec.page_tokens or self._limit()) - special
        dim = self._model.get_embedding_dimension()
        return self._kept(dim)

    def _limit(self) -> int:
        stated = getattr(self._model[0], "document_length", None) or self._model.max_seq_length
        return int(stated or 512)

    def _pages(self, pages: Sequence[Any]) -> list[np.ndarray]:
        return self._passages(pages, self._room, partial(self._encode, self._model.encode_document))

    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        return self._encode(self._model.encode_query, texts)

    def _encode(self, encode: Callable[..., Any], texts: list[str]) -> list[np.ndarray]:
        found = encode(texts, batch_size=len(texts), show_progress_bar=False)
        return [each.float().cpu().numpy() for each in found]
