"""The dataset class with which verl's supervised trainer loads files of `docagent-rl data sft`.

Recipes name it (`recipes/base/sft.yaml`). Rows stay in their files and are read when they are
drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from cachetools import LRUCache, cached
from torch.utils.data import Dataset

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import Picture, render
from docagent_rl.lab.sft.rows import SftFile, SftRow, tokenizer_digest
from docagent_rl.rollout.images import EncodedImage, encode_image, join_features
from docagent_rl.rollout.patches import PatchFormat

CACHE_BYTES = 256 << 20
"""Memory for cached preprocessed images; every worker of a data loader has its own cache."""
_NO_STORE = "these rows show images: set +data.store=<document store> and use a vision model"


class LedgerSftDataset(Dataset):
    """Rows in the form that the training engine expects; nothing is tokenised, and preprocessed
    images are cached.

    An item with `t` tokens and `i` images that have `p` patches altogether contains

    - `input_ids` (t,) int64 and `loss_mask` (t,) int64, as in the file;
    - `position_ids` (4, t) int64: text positions and the three of M-RoPE; (t,) without a processor;
    - `multi_modal_inputs`: the model's inputs for the images, such as `pixel_values` (p, channels)
      float32 and `image_grid_thw` (i, 3) int64; empty without images.

    Of `config`, the section `data`, only `store` is read (path of the document store; not needed
    without images); the rest is checked before a run (`preflight`). `processor` is as loaded by
    `verl.utils.hf_processor`, `None` for a text-only model. Only the first `max_samples` rows are
    used, or all if it is -1.

    Raises:
        UserError: a file cannot be used, or a setting is wrong.
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
        digest = tokenizer_digest(tokenizer)
        self._files = [SftFile(file, digest) for file in files]
        rows = sum(map(len, self._files))
        self._size = rows if max_samples < 0 else min(rows, max_samples)
        self._processor = processor
        store = config.get("store")
        shows = any(next(file.pictures(), None) is not None for file in self._files)
        if shows and (store is None or processor is None):
            raise UserError(_NO_STORE)
        self._images = _image_cache(store, processor)

    def __len__(self) -> int:
        return self._size

    def _row(self, index: int) -> SftRow:
        for file in self._files:
            if index < len(file):
                return file.row(index)
            index -= len(file)
        raise IndexError(index)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self._row(index)
        ids = torch.tensor(row.input_ids, dtype=torch.int64)
        features = join_features([self._images(image) for image in row.images], self._processor)
        return {
            "input_ids": ids,
            "loss_mask": torch.tensor(row.loss_mask, dtype=torch.int64),
            "position_ids": position_ids(ids, features, self._processor),
            "multi_modal_inputs": features,
        }


def position_ids(
    ids: torch.Tensor, features: Mapping[str, torch.Tensor], processor: Any | None
) -> torch.Tensor:
    """Return the positions of a row `ids`, (t,) int64, without padding, as verl's rollout computes
    them.

    They are (4, t): text positions, then time, height and width; (t,) if the model has one position
    per token. `features` are those of the row's images; `processor` has the `get_rope_index` that
    `verl.utils.hf_processor` adds to it, and is `None` for a text-only model.
    """
    text = torch.arange(len(ids))
    if processor is None or not hasattr(processor, "get_rope_index"):
        return text
    # shape (3, 1, t)
    vision, _ = processor.get_rope_index(
        input_ids=ids[None],
        mm_token_type_ids=(ids == processor.image_token_id).long()[None],
        image_grid_thw=features.get("image_grid_thw"),
        attention_mask=torch.ones_like(ids)[None],
    )
    return torch.cat([text[None], vision[:, 0]])


def _image_cache(store: str | None, processor: Any | None) -> Callable[[Picture], EncodedImage]:
    documents = None if store is None else DocumentStore(store)
    images = getattr(processor, "image_processor", None)
    layout = None if documents is None or images is None else PatchFormat.of(images)
    cache: LRUCache[str, EncodedImage] = LRUCache(CACHE_BYTES, getsizeof=lambda image: image.nbytes)

    @cached(cache, key=lambda picture: picture.key)
    def encoded(picture: Picture) -> EncodedImage:
        if documents is None or images is None:
            raise UserError(_NO_STORE)
        return encode_image(picture, render(picture, documents), processor, layout)

    return encoded
