"""One vector a page image, the last token's: vdr-2b (LlamaIndex) and gme (Alibaba)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.checkpoints import check_complete, image_tokens, set_pixels
from docagent_rl.retrieval.encoders.files import read_json
from docagent_rl.retrieval.encoders.local import LocalEncoder
from docagent_rl.retrieval.encoders.texts import Texts, prompted

_QUERY_SIZE = (56, 56)
"""Of the black image beside a query: vdr-2b's model card."""


class Qwen2VLEncoder(LocalEncoder):
    """See `LocalEncoder`."""

    def _load(self) -> int:
        import torch
        from transformers import Qwen2VLForConditionalGeneration, Qwen2VLProcessor

        found = read_json(self.folder / "config.json").get("model_type")
        if found != "qwen2_vl":
            raise UserError(f"{self._named} is a model of type {found}, where family=qwen2_vl reads qwen2_vl")
        self._processor = Qwen2VLProcessor.from_pretrained(self.folder)
        # the last token is the last column then
        self._processor.tokenizer.padding_side = "left"
        set_pixels(self._processor.image_processor, self.spec, self._named)
        loaded: Any = Qwen2VLForConditionalGeneration.from_pretrained(
            self.folder,
            dtype=getattr(torch, self.spec.dtype),
            output_loading_info=True,
            local_files_only=True,
        )
        model, info = loaded
        check_complete(info, self._named)
        self._model = model.model.eval().to(self._lane.device)
        self._texts = Texts(self._processor.tokenizer, image_tokens(self._processor))
        return self._kept(model.config.text_config.hidden_size)

    def _pages(self, pages: Sequence[Any]) -> list[np.ndarray]:
        return self._images(
            pages, lambda batch: self._encode([self.spec.page_prompt or ""] * len(batch), batch)
        )

    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        prompts = [prompted(self.spec.query_prompt, text) for text in texts]
        beside = [Image.new("RGB", _QUERY_SIZE)] * len(texts) if self.spec.query_image else None
        return self._encode(prompts, beside)

    def _encode(self, prompts: list[str], images: list[Image.Image] | None) -> list[np.ndarray]:
        batch: Any = self._processor(text=prompts, images=images, padding="longest", return_tensors="pt")
        hidden = self._model(**batch.to(self._lane.device), use_cache=False).last_hidden_state
        return list(hidden[:, -1:].float().cpu().numpy())
