"""Encoders of page images: ColPali (Faysse et al., ICLR 2025) and similar models with a vector per
patch; vdr-2b, gme and Qwen3-VL-Embedding with one vector per page.
"""

from typing import Any

import numpy as np
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.encoders.checkpoints import (
    check_weights_loaded,
    load_late_interaction,
    placeholder_tokens,
    read_json,
    set_pixels,
)
from docagent_rl.retrieval.encoders.local import PageImageEncoder, Texts, fill_prompt
from docagent_rl.retrieval.encoders.spec import ArchitectureFamily

_QUERY_SIZE = (56, 56)
"""Size of the black image that accompanies a query, from vdr-2b's model card."""
_CLASSES = {ArchitectureFamily.QWEN2_VL: "Qwen2VL", ArchitectureFamily.QWEN3_VL: "Qwen3VL"}
"""Prefixes of the names of models and processors in transformers."""
_UNUSED = ("lm_head.weight",)
"""Unused weights, which an embedding model may lack."""


class LateImageEncoder(PageImageEncoder):
    """A `PageImageEncoder` with a vector per patch: ColPali and similar models.

    The attention mask removes rows of padding, which are zero, or NaN if a norm was zero.
    """

    def _load(self) -> int:
        model, self._processor = load_late_interaction(self.folder, self.spec, self._named)
        self._model = model.to(self._thread.device)
        self._texts = Texts(self._processor.tokenizer, placeholder_tokens(self._processor))
        return int(self._model.dim)

    def _prepare(self, processor: Any, images: list[Image.Image]) -> Any:
        return processor.process_images(images)

    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        prompt = self.spec.query_prompt
        if prompt is None:
            return self._encode(self._processor.process_queries(queries=texts))
        return self._encode(
            self._processor.process_texts([fill_prompt(prompt, text) for text in texts])
        )

    def _encode(self, prepared: Any) -> list[np.ndarray]:
        import torch

        batch = prepared.to(self._thread.device)
        batch.pop("labels", None)
        if self.spec.family is ArchitectureFamily.COLPALI and "token_type_ids" not in batch:
            # mark the query as a prefix, which PaliGemma reads bidirectionally; otherwise,
            # transformers 5.9 does so only if the batch has no padding, and else reads causally
            batch["token_type_ids"] = torch.zeros_like(batch["input_ids"])
        vectors = self._model(**batch).float()
        kept = batch["attention_mask"].bool()
        return [each[mask].cpu().numpy() for each, mask in zip(vectors, kept, strict=True)]


class LastTokenEncoder(PageImageEncoder):
    """A `PageImageEncoder` that takes the vector of the last token.

    For vdr-2b (LlamaIndex), gme (Alibaba) and Qwen3-VL-Embedding.
    """

    def _load(self) -> int:
        import torch
        import transformers

        family = self.spec.family
        found = read_json(self.folder / "config.json").get("model_type")
        if found != family:
            raise UserError(
                f"{self._named} is a model of type {found}, but family={family} needs {family}"
            )
        name = _CLASSES[family]
        self._processor = getattr(transformers, f"{name}Processor").from_pretrained(self.folder)
        # with padding on the left, the last token is always in the last column
        self._processor.tokenizer.padding_side = "left"
        set_pixels(self._processor.image_processor, self.spec, self._named)
        loaded: Any = getattr(transformers, f"{name}ForConditionalGeneration").from_pretrained(
            self.folder,
            dtype=getattr(torch, self.spec.dtype),
            output_loading_info=True,
            local_files_only=True,
        )
        model, info = loaded
        check_weights_loaded(info, self._named, _UNUSED)
        self._model = model.model.eval().to(self._thread.device)
        self._texts = Texts(self._processor.tokenizer, placeholder_tokens(self._processor))
        return int(model.config.text_config.hidden_size)

    def _prepare(self, processor: Any, images: list[Image.Image]) -> Any:
        return _put_together(processor, [self.spec.page_prompt or ""] * len(images), images)

    def _queries(self, texts: list[str]) -> list[np.ndarray]:
        prompts = [fill_prompt(self.spec.query_prompt, text) for text in texts]
        beside = [Image.new("RGB", _QUERY_SIZE)] * len(texts) if self.spec.query_image else None
        return self._encode(_put_together(self._processor, prompts, beside))

    def _encode(self, prepared: Any) -> list[np.ndarray]:
        hidden = self._model(**prepared.to(self._thread.device), use_cache=False).last_hidden_state
        return list(hidden[:, -1:].float().cpu().numpy())


def _put_together(processor: Any, prompts: list[str], images: list[Image.Image] | None) -> Any:
    """Return the input of Qwen2-VL or Qwen3-VL for prompts and the pictures in them."""
    return processor(text=prompts, images=images, padding="longest", return_tensors="pt")
