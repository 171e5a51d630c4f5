"""A vector a patch of a page image: ColPali (Faysse et al., ICLR 2025) and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from docagent_rl.retrieval.encoders.checkpoints import image_tokens, load_late_interaction
from docagent_rl.retrieval.encoders.local import LocalEncoder
from docagent_rl.retrieval.encoders.spec import Family
from docagent_rl.retrieval.encoders.texts import Texts, prompted

_UNCUT = 32_768
"""Tokens: queries are cut before, so that a processor's own limit (ColPali's is 50) cuts none."""


class LateImageEncoder(LocalEncoder):
    """See `LocalEncoder`.

    Rows of padding are left out by the attention mask: they hold zeros, or NaN where a norm was zero.
    """

    def _load(self) -> int:
        loaded = load_late_interaction(self.folder, self.spec, self._named)
        self._model = loaded.model.to(self._lane.device)
        self._processor, self._by_transformers = loaded.processor, loaded.by_transformers
        self._texts = Texts(self._processor.tokenizer, image_tokens(self._processor))
        config = self._model.config
        return self._kept(getattr(self._model, "dim", None) or config.embedding_dim)

    def _pages(self, pages: Sequence[Any]) -> list[np.ndarray]:
        return self._images(pages, self._encode_images)

    def _encode_images(self, images: list[Image.Image]) -> list[np.ndarray]:
        return self._encode(self._processor.process_images(images))

    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        if self.spec.query_prompt is not None:
            return self._encode(self._tokens([prompted(self.spec.query_prompt, text) for text in texts]))
        if not self._by_transformers:
            return self._encode(self._processor.process_queries(queries=texts))
        limit = {"max_length": _UNCUT} if self.spec.family is Family.COLPALI else {}
        return self._encode(self._processor.process_queries(texts, **limit))

    def _tokens(self, texts: list[str]) -> Any:
        if not self._by_transformers:
            return self._processor.process_texts(texts)
        tokenizer = self._processor.tokenizer
        begin = tokenizer.bos_token if self.spec.family is Family.COLPALI else ""
        return tokenizer([begin + text for text in texts], padding="longest", return_tensors="pt")

    def _encode(self, batch: Any) -> list[np.ndarray]:
        batch = batch.to(self._lane.device)
        batch.pop("labels", None)
        mask = batch["attention_mask"]
        found = self._model(**batch, **self._additions(batch))
        vectors = getattr(found, "embeddings", found).float()
        return [each[kept].cpu().numpy() for each, kept in zip(vectors, mask.bool(), strict=True)]

    def _additions(self, batch: Any) -> dict[str, Any]:
        """What the libraries leave out, and the models were trained with."""
        import torch

        ids = batch["input_ids"]
        if self.spec.family is Family.COLPALI and "token_type_ids" not in batch:
            # a prefix, which PaliGemma reads in both directions: without this, transformers 5.9 reads a query
            # so where its batch has no padding and from left to right where it has
            return {"token_type_ids": torch.zeros_like(ids)}
        if self.spec.family is Family.COLQWEN2 and self._by_transformers:
            # transformers 5.9 numbers the patches of an image like words, without rows and columns
            inner = self._model.vlm
            kinds = (ids == inner.config.image_token_id).int()
            places, _ = inner.get_rope_index(
                ids, kinds, batch.get("image_grid_thw"), attention_mask=batch["attention_mask"]
            )
            return {"position_ids": places}
        return {}
