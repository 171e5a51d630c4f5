"""Attention written out: scores, mask, softmax, sum."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor


def eager_row(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None = None) -> Tensor:
    """One row: q (n, heads, d), k and v (m, heads of keys, d)."""
    heads, kv_heads = q.shape[1], k.shape[1]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    columns = []
    for head in range(heads):
        own = head * kv_heads // heads
        scores = q[:, head] @ k[:, own].T * scale
        if causal:
            later = torch.ones_like(scores, dtype=torch.bool).triu(1 + k.shape[0] - q.shape[0])
            scores = scores.masked_fill(later, float("-inf"))
        columns.append(scores.softmax(dim=-1) @ v[:, own])
    return torch.stack(columns, dim=1)


def eager_pack(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, causal: bool) -> Tensor:
    spans = zip(itertools.pairwise(cu_q.tolist()), itertools.pairwise(cu_k.tolist()), strict=True)
    return torch.cat([eager_row(q[a:b], k[c:d], v[c:d], causal) for (a, b), (c, d) in spans])


def cumulative(lengths: list[int], device: str = "cpu") -> Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=device)
