"""Attention over packed rows, row by row: what the kernels compute, for processors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

NO_LIMIT = -1


def plain_varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    scale: float | None = None,
    window: tuple[int, int] = (NO_LIMIT, NO_LIMIT),
) -> Tensor:
    """Attend within each row of a pack, as `torch.nn.attention.varlen.varlen_attn` does on a GPU.

    Query i of a row with q queries and k keys sees the keys from i + k - q - left to i + k - q + right: the
    last query is level with the last key. A query that sees no key gets zeros.

    Args:
        query: (total q, heads, d).
        key: (total k, heads of keys, d); each serves `heads // heads of keys` neighbouring query heads.
        value: like `key`.
        cu_seqlens_q: (rows + 1,) where each row of `query` begins, and the end.
        cu_seqlens_k: (rows + 1,) the same of `key`.
        scale: of the scores; by default d ** -0.5.
        window: keys seen to the left and to the right, -1 for all: (-1, 0) is causal.

    Returns:
        (total q, heads, d).
    """
    groups = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
    q_lengths, k_lengths = cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist()
    rows = zip(query.split(q_lengths), key.split(k_lengths), value.split(k_lengths), strict=True)
    return torch.cat([_row(q, k, v, scale, window) for q, k, v in rows])


def _row(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: tuple[int, int]) -> Tensor:
    if not query.shape[0] or not key.shape[0]:
        return torch.zeros_like(query)
    q, k, v = (tensor.transpose(0, 1).unsqueeze(0) for tensor in (query, key, value))
    if window == (NO_LIMIT, NO_LIMIT):
        out = functional.scaled_dot_product_attention(q, k, v, scale=scale)
    elif window == (NO_LIMIT, 0) and query.shape[0] == key.shape[0]:
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    else:
        seen = _band(query.shape[0], key.shape[0], window, query.device)
        blind = ~seen.any(dim=1)
        mask = seen | blind[:, None]  # softmax over nothing is not a number; these are zeroed afterwards
        out = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        out = out.masked_fill(blind[:, None], 0.0)
    return out.squeeze(0).transpose(0, 1)


def _band(queries: int, keys: int, window: tuple[int, int], device: torch.device) -> Tensor:
    left, right = window
    level = torch.arange(queries, device=device)[:, None] + keys - queries
    distance = torch.arange(keys, device=device)[None, :] - level
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left != NO_LIMIT:
        seen &= distance >= -left
    if right != NO_LIMIT:
        seen &= distance <= right
    return seen
