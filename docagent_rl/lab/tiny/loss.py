"""The loss of the warm-up: next-token likelihood of what the assistant wrote."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from transformers import Qwen2_5_VLForConditionalGeneration

from docagent_rl.lab.tiny.encoding import Example

MIN_SHARED = 64
"""Shortest common opening, in tokens, that is worth a pass of its own."""


def batch_loss(model: Qwen2_5_VLForConditionalGeneration, batch: Sequence[Example]) -> torch.Tensor:
    """Return the mean negative log-likelihood of the supervised tokens of a batch, a scalar in nats.

    The opening that all examples share (instructions of hundreds of tokens) goes through the model once, with
    its gradient; the rests follow as a batch over its keys and values. Rests are padded on the right, which
    needs no mask: under causal attention a real token never sees the padding behind it.
    """
    start = shared_prefix(batch)
    ids = _pad([example.input_ids for example in batch])
    supervised = _pad([example.supervised for example in batch])
    is_image = _pad([example.is_image for example in batch])
    pixels = [example.pixel_values for example in batch if example.pixel_values is not None]
    grids = [example.image_grid_thw for example in batch if example.image_grid_thw is not None]
    vision = {"pixel_values": torch.cat(pixels), "image_grid_thw": torch.cat(grids)} if pixels else {}
    # (3, b, t): time, height and width of every token
    # transformers declares tensors by their kind of number
    grid = vision.get("image_grid_thw")
    positions, _ = model.model.get_rope_index(ids, is_image, grid)  # ty: ignore[invalid-argument-type]
    cache = None
    if start:
        prefix = model.model(input_ids=ids[:1, :start], position_ids=positions[:, :1, :start], use_cache=True)
        cache = prefix.past_key_values
        cache.batch_repeat_interleave(len(batch))
    hidden = model.model(
        input_ids=ids[:, start:],
        position_ids=positions[:, :, start:],
        past_key_values=cache,
        use_cache=cache is not None,
        **vision,
    ).last_hidden_state
    targets = supervised[:, start + 1 :]
    return F.cross_entropy(model.lm_head(hidden[:, :-1][targets]), ids[:, start + 1 :][targets])


def shared_prefix(batch: Sequence[Example]) -> int:
    """Return how many leading tokens all examples share, images and what predicts a turn excluded.

    Short ones count as none: a pass of their own would cost more than it saves.
    """
    limit = min(int((example.supervised | example.is_image.bool()).nonzero()[0]) - 1 for example in batch)
    if limit < MIN_SHARED:
        return 0
    openings = torch.stack([example.input_ids[:limit] for example in batch])
    differs = (openings != openings[0]).any(0).nonzero()
    return int(differs[0]) if len(differs) else limit


def _pad(sequences: list[torch.Tensor]) -> torch.Tensor:
    return pad_sequence(sequences, batch_first=True)
