"""flash-attn 2's functions, implemented with torch: attention over packed rows, and log-probs of
labels.

`torch.nn.attention.varlen` (torch 2.11) has the same kernels: bf16 and fp16, numbers of key heads
that divide the number of query heads, head sizes up to 256 in steps of 8, forward and backward, for
compute capability 8.0 or later. It has no dropout, soft capping, biases, sinks or paged keys; these
are refused here, never ignored. On a CPU the rows of a pack are processed one by one.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from docagent_rl.base.errors import UserError

BLOCK_ENTRIES = 2**24
"""Logits that are processed together: 64 MiB in float32."""
KERNEL_DTYPES = (torch.bfloat16, torch.float16)
LARGEST_HEAD = 256
HEAD_STEP = 8
NO_LIMIT = -1
"""A window side without a limit: all keys on that side are visible."""


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int | Tensor,
    max_seqlen_k: int | Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (NO_LIMIT, NO_LIMIT),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
    s_aux: Tensor | None = None,
) -> Tensor:
    """Compute attention within each row of a pack; the signature is flash-attn's.

    `q` is (total q, heads, d), `k` and `v` are (total k, key heads, d). `cu_seqlens_q` and
    `cu_seqlens_k` (rows + 1,) are the offsets at which rows begin, and the total. Scores are scaled
    by d ** -0.5 unless `softmax_scale` is given. `window_size` is the number of visible keys to the
    left and to the right, -1 for all; with `causal` the last query is aligned with the last key.
    `deterministic` makes the backward pass sum in a fixed order. The other arguments must be off.

    Returns:
        (total q, heads, d).

    Raises:
        UserError: torch's kernels do not support the request.
    """
    _refuse(
        dropout=dropout_p,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        return_attn_probs=return_attn_probs,
        block_table=block_table,
        attention_sinks=s_aux,
    )
    left, right = window_size
    window = (left, 0 if causal else right)
    if q.device.type == "cpu":
        return plain_varlen_attn(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, window)
    from torch.nn.attention.varlen import varlen_attn

    size = q.shape[-1]
    _validate(q, size)
    scale = size**-0.5 if softmax_scale is None else softmax_scale
    missing = -size % HEAD_STEP
    if missing:  # padding with zeros does not change the scores
        q, k, v = (functional.pad(tensor, (0, missing)) for tensor in (q, k, v))
    q, k, v = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (q, k, v))
    cu_q, cu_k = (cu.to(torch.int32).contiguous() for cu in (cu_seqlens_q, cu_seqlens_k))
    longest = int(max_seqlen_q), int(max_seqlen_k)
    out = varlen_attn(q, k, v, cu_q, cu_k, *longest, scale=scale, window_size=window)
    assert isinstance(out, Tensor)  # it is only a pair with `return_aux`
    if deterministic:
        make_backward_deterministic(out)
    return out[..., :size] if missing else out


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    **others: Any,
) -> Tensor:
    """Compute attention within rows of equal length; see `flash_attn_varlen_func` for arguments.

    `q` is (rows, queries, heads, d), `k` and `v` are (rows, keys, key heads, d); the result has the
    shape of `q`.
    """
    queries = q.shape[1]
    keys = k.shape[1]
    rows = torch.arange(q.shape[0] + 1, dtype=torch.int32, device=q.device)
    out = flash_attn_varlen_func(
        q.flatten(0, 1),
        k.flatten(0, 1),
        v.flatten(0, 1),
        rows * queries,
        rows * keys,
        queries,
        keys,
        dropout_p=dropout_p,
        softmax_scale=softmax_scale,
        causal=causal,
        **others,
    )
    return out.unflatten(0, (q.shape[0], queries))


def make_backward_deterministic(out: Tensor) -> None:
    """Run the backward pass of the node that computed `out` with
    `torch.use_deterministic_algorithms`.

    torch's kernels have no argument for this: they check the global switch, and treat `warn_only`,
    which verl sets, as off. The switch is restored right after the node.
    """
    node = out.grad_fn
    if node is None:
        return
    found: list[tuple[bool, bool]] = []

    def enter(_: object) -> None:
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        found.append((torch.are_deterministic_algorithms_enabled(), warn_only))
        torch.use_deterministic_algorithms(True)

    def leave(*_: object) -> None:
        enabled, warn_only = found.pop()
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)

    node.register_prehook(enter)
    node.register_hook(leave)


def _validate(q: Tensor, size: int) -> None:
    if q.dtype not in KERNEL_DTYPES:
        raise UserError(
            f"flash_attention_2 on {q.device.type} supports bfloat16 and float16, but not "
            f"{q.dtype}: set mixed_precision.param_dtype=bf16 for the engine, or "
            "attn_implementation=sdpa and use_remove_padding=False for the model"
        )
    if size > LARGEST_HEAD:
        raise UserError(
            f"flash_attention_2 supports head sizes up to {LARGEST_HEAD}, but this model's is "
            f"{size}: set attn_implementation=sdpa and use_remove_padding=False"
        )


def _refuse(**options: object) -> None:
    off = {
        name
        for name, value in options.items()
        if isinstance(value, bool | int | float) and not value
    }
    asked = [name for name, value in options.items() if value is not None and name not in off]
    if asked:
        raise UserError(
            f"torch.nn.attention.varlen does not support {', '.join(asked)}: set it to 0 in the "
            "model's configuration (override_config), or install flash-attn (docagent-rl doctor "
            "says which build)"
        )


def plain_varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    scale: float | None = None,
    window: tuple[int, int] = (NO_LIMIT, NO_LIMIT),
) -> Tensor:
    """Compute on any device what `torch.nn.attention.varlen.varlen_attn` computes on a GPU.

    Shapes are those of `flash_attn_varlen_func`; each key head serves `heads // key heads`
    neighbouring query heads. Query i of a row with q queries and k keys sees the keys from
    i + k - q - left to i + k - q + right, and all keys on a side with -1: the window (-1, 0) is
    causal. A query that sees no key gets zeros.
    """
    groups = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(groups, dim=1) for tensor in (key, value))
    q_lengths = cu_seqlens_q.diff().tolist()
    k_lengths = cu_seqlens_k.diff().tolist()
    rows = zip(query.split(q_lengths), key.split(k_lengths), value.split(k_lengths), strict=True)
    return torch.cat([_row(q, k, v, scale, window) for q, k, v in rows])


def _row(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: tuple[int, int]
) -> Tensor:
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
        # softmax over no keys is NaN, so these queries see all keys and are zeroed afterwards
        mask = seen | blind[:, None]
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


def log_probs_of_labels(logits: Tensor, labels: Tensor, inplace_backward: bool = True) -> Tensor:
    """Return log softmax(logits)[labels], (...) in float32 (float64 for float64).

    This replaces flash-attn's cross entropy, with the same results and memory: in addition to the
    logits, which are saved for the backward pass, it needs one block and one number per position.

    `logits` are (..., v) of any floating-point type, `labels` (...) from 0 to v - 1. With
    `inplace_backward` the backward pass writes the gradient into the logits, which must then not be
    needed elsewhere: another function that has saved them fails in its own backward pass. Leaf
    tensors are never overwritten.
    """
    flat = logits.reshape(-1, logits.shape[-1])
    found = _LogProbs.apply(flat, labels.reshape(-1), inplace_backward and not logits.is_leaf)
    assert isinstance(found, Tensor)
    return found.view(labels.shape)


class _LogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, inplace_backward: bool) -> Tensor:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        normalisers = torch.empty(len(logits), dtype=dtype, device=logits.device)
        chosen = logits.gather(1, labels[:, None]).squeeze(1).to(dtype)
        for block in _blocks(logits):
            torch.logsumexp(logits[block].to(dtype), dim=1, out=normalisers[block])
        ctx.save_for_backward(logits, labels, normalisers)
        ctx.inplace_backward = inplace_backward
        return chosen.sub_(normalisers)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, labels, normalisers = ctx.saved_tensors
        (gradient,) = gradients
        result = logits.detach() if ctx.inplace_backward else torch.empty_like(logits)
        for block in _blocks(logits):
            # d log p(label) / d logits = one-hot(label) - softmax
            part = (
                logits[block].to(normalisers.dtype, copy=True).sub_(normalisers[block, None]).exp_()
            )
            part.mul_(-gradient[block, None])
            part.scatter_add_(1, labels[block, None], gradient[block, None].to(part.dtype))
            result[block] = part
        return result, None, None


def _blocks(logits: Tensor) -> list[slice]:
    rows = max(1, BLOCK_ENTRIES // max(1, logits.shape[1]))
    return [slice(start, start + rows) for start in range(0, len(logits), rows)]
