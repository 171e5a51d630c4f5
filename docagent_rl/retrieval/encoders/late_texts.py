"""A vector a token of a text: ColBERT (Khattab and Zaharia, SIGIR 2020), by sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.files import MODULES, read_json
from docagent_rl.retrieval.encoders.local import LocalEncoder
from docagent_rl.retrieval.encoders.spec import Pooling
from docagent_rl.retrieval.encoders.texts import Texts

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

_STANFORD = "HF_ColBERT"


class LateTextEncoder(LocalEncoder):
    """See `LocalEncoder`. Markers, padding of queries by [MASK] and skipped punctuation are the checkpoint's.

    A page that is longer than the model takes is several passages; its vectors are those of all of them, so
    that each token of a query finds the best token of the page.
    """

    _model: MultiVectorEncoder

    def _load(self) -> int:
        import torch
        from sentence_transformers import MultiVectorEncoder

        config = read_json(self.folder / "config.json")
        stanford = _STANFORD in (config.get("architectures") or ())
        if not stanford and not (self.folder / MODULES).is_file():
            # sentence-transformers would add a projection drawn at random
            raise UserError(
                f"{self._named} is no late-interaction model: it has neither {MODULES} nor the architecture "
                f"{_STANFORD}"
            )
        if not stanford and not _projects(self.folder):
            raise UserError(f"{self._named} has no projection of tokens in {MODULES}: it is a dense model")
        if self.spec.query_prompt or self.spec.page_prompt or self.spec.pooling is not Pooling.CHECKPOINT:
            raise UserError(f"{self._named}: prompts and pooling of the family colbert are the checkpoint's")
        self._model = MultiVectorEncoder(
            str(self.folder),
            device=str(self._lane.device),
            local_files_only=True,
            model_kwargs={"dtype": getattr(torch, self.spec.dtype)},
        )
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
        found = encode(texts, batch_size=self.batch_size, show_progress_bar=False)
        return [each.float().cpu().numpy() for each in found]


def _projects(folder: Any) -> bool:
    kinds = [str(each.get("type")) for each in read_json(folder / MODULES)["list"] if isinstance(each, dict)]
    return any(kind.endswith(("Dense", "MultiVectorMask")) for kind in kinds)
