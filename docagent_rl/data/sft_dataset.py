"""The data set class that verl's supervised trainer loads for files of `data.sft`.

`python -m verl.trainer.sft_trainer data.custom_cls.path=pkg://docagent_rl.data.sft_dataset
data.custom_cls.name=LedgerSftDataset data.train_files=rows.parquet +data.store=workspace/store ...`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch.utils.data import Dataset

from docagent_rl.data.sft import SftRow, read_sft
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.delivery import render
from docagent_rl.envs.images import Picture
from docagent_rl.errors import UserError

KEPT_IMAGES = 4096
"""Preprocessed images that a data set keeps."""


class LedgerSftDataset(Dataset):
    """Rows as the training engine takes them; nothing is tokenised, and each image is preprocessed once.

    An item of `t` tokens and `i` images with `p` patches in all holds

    - `input_ids` (t,) int64 and `loss_mask` (t,) int64, as in the file;
    - `position_ids` (4, t) int64: text positions and the three of M-RoPE; (t,) without a processor;
    - `multi_modal_inputs`: `pixel_values` (p, channels) float32 and `image_grid_thw` (i, 3) int64, or empty.

    Args:
        parquet_files: one file or several.
        tokenizer: of the model; its vocabulary must be that of the files.
        config: the section `data`: `store` (path of the document store; not needed without images),
            `max_length`, `pad_mode` (only `no_padding`).
        processor: of the model, as `verl.utils.hf_processor` loads it; `None` for a text-only model.
        max_samples: use so many rows from the beginning; -1 for all.

    Raises:
        UserError: a file cannot be used, a row is longer than `max_length`, or a setting is wrong.
    """

    def __init__(
        self,
        parquet_files: str | Sequence[str],
        tokenizer: Any,
        config: Mapping[str, Any],
        processor: Any | None = None,
        max_samples: int = -1,
    ) -> None:
        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        if config.get("pad_mode", "no_padding") != "no_padding":
            raise UserError(f"data.pad_mode={config['pad_mode']}: rows of this data set are not padded")
        rows = [row for file in files for row in read_sft(file, tokenizer)]
        self._rows = rows if max_samples < 0 else rows[:max_samples]
        self._processor = processor
        _check_lengths(self._rows, int(config.get("max_length", 0)))
        store = config.get("store")
        if any(row.images for row in self._rows) and (store is None or processor is None):
            raise UserError("these rows show images: set +data.store=<document store> and use a vision model")
        self._features = _feature_cache(store, processor)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self._rows[index]
        ids = torch.tensor(row.input_ids, dtype=torch.int64)
        features = self._join(row.images)
        return {
            "input_ids": ids,
            "loss_mask": torch.tensor(row.loss_mask, dtype=torch.int64),
            "position_ids": position_ids(ids, features, self._processor),
            "multi_modal_inputs": features,
        }

    def _join(self, images: Sequence[Picture]) -> dict[str, torch.Tensor]:
        each = [self._features(image) for image in images]
        return {name: torch.cat([one[name] for one in each]) for name in (each[0] if each else ())}


def position_ids(
    ids: torch.Tensor, features: Mapping[str, torch.Tensor], processor: Any | None
) -> torch.Tensor:
    """Positions of a row without padding, as verl's rollout computes them.

    Args:
        ids: (t,) int64.
        features: of the row's images; may be empty.
        processor: with `get_rope_index`, which `verl.utils.hf_processor` gives it; `None` for a text-only
            model.

    Returns:
        (4, t): text positions, then time, height and width; (t,) where the model has one position a token.
    """
    text = torch.arange(len(ids))
    if processor is None or not hasattr(processor, "get_rope_index"):
        return text
    # (3, 1, t)
    vision, _ = processor.get_rope_index(
        input_ids=ids[None],
        mm_token_type_ids=(ids == processor.image_token_id).long()[None],
        image_grid_thw=features.get("image_grid_thw"),
        attention_mask=torch.ones_like(ids)[None],
    )
    return torch.cat([text[None], vision[:, 0]])


def _feature_cache(store: str | None, processor: Any | None) -> Any:
    documents = None if store is None else DocumentStore(store)

    @lru_cache(maxsize=KEPT_IMAGES)
    def features(picture: Picture) -> dict[str, torch.Tensor]:
        pixels = render(picture, documents)
        return dict(processor.image_processor(images=[pixels], return_tensors="pt"))

    return features


def _check_lengths(rows: Sequence[SftRow], most: int) -> None:
    if not rows:
        raise UserError("there is no row to train on")
    longest = max(rows, key=lambda row: len(row.input_ids))
    if most and len(longest.input_ids) > most:
        raise UserError(
            f"question {longest.question_id} has {len(longest.input_ids)} tokens, data.max_length is {most}"
        )
