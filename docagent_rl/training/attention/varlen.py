"""`flash_attn_func` and `flash_attn_varlen_func` of flash-attn 2, computed by torch.

`torch.nn.attention.varlen` (torch 2.11) holds the same kernels: bf16 and fp16, heads of keys that divide the
heads of queries, head sizes up to 256 in steps of 8, forward and backward, compute capability 8.0 or later.
Dropout, soft capping, biases, sinks and paged keys it has not; they are refused here, never left out.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from docagent_rl.base.errors import UserError
from docagent_rl.training.attention.plain import NO_LIMIT, plain_varlen_attn

KERNEL_DTYPES = (torch.bfloat16, torch.float16)
LARGEST_HEAD = 256
HEAD_STEP = 8


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
    """Attend within each row of a pack; the signature is flash-attn's.

    Args:
        q: (total q, heads, d).
        k: (total k, heads of keys, d).
        v: like `k`.
        cu_seqlens_q: (rows + 1,) where each row begins, and the end.
        cu_seqlens_k: the same for keys.
        max_seqlen_q: queries of the longest row.
        max_seqlen_k: keys of the longest row.
        dropout_p: 0.
        softmax_scale: of the scores; by default d ** -0.5.
        causal: whether a query sees no later key; the last query is level with the last key.
        window_size: keys seen to the left and to the right, -1 for all.
        softcap: 0.
        alibi_slopes: None.
        deterministic: whether the backward pass adds up in a fixed order.
        return_attn_probs: False.
        block_table: None.
        s_aux: None.

    Returns:
        (total q, heads, d).

    Raises:
        UserError: for what torch's kernels do not compute.
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
    rows = _Rows(cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    return rows.attend(q, k, v, softmax_scale, window, deterministic)


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (NO_LIMIT, NO_LIMIT),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    s_aux: Tensor | None = None,
) -> Tensor:
    """Attend within rows of one length; arguments as in `flash_attn_varlen_func`.

    Args:
        q: (rows, queries, heads, d).
        k: (rows, keys, heads of keys, d).
        v: like `k`.
        dropout_p: 0.
        softmax_scale: see there.
        causal: see there.
        window_size: see there.
        softcap: 0.
        alibi_slopes: None.
        deterministic: see there.
        return_attn_probs: False.
        s_aux: None.

    Returns:
        (rows, queries, heads, d).
    """
    queries, keys = q.shape[1], k.shape[1]
    out = flash_attn_varlen_func(
        q.flatten(0, 1),
        k.flatten(0, 1),
        v.flatten(0, 1),
        _even_rows(q.shape[0], queries, q.device),
        _even_rows(q.shape[0], keys, q.device),
        queries,
        keys,
        dropout_p=dropout_p,
        softmax_scale=softmax_scale,
        causal=causal,
        window_size=window_size,
        softcap=softcap,
        alibi_slopes=alibi_slopes,
        deterministic=deterministic,
        return_attn_probs=return_attn_probs,
        s_aux=s_aux,
    )
    return out.unflatten(0, (q.shape[0], queries))


def _even_rows(rows: int, length: int, device: torch.device) -> Tensor:
    return torch.arange(rows + 1, dtype=torch.int32, device=device) * length


class _Rows:
    """Where the rows of a pack lie, in the form of torch's kernels."""

    def __init__(self, cu_q: Tensor, cu_k: Tensor, max_q: int, max_k: int) -> None:
        self._cu_q, self._cu_k = (cu.to(torch.int32).contiguous() for cu in (cu_q, cu_k))
        self._max_q, self._max_k = max_q, max_k

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scale: float | None,
        window: tuple[int, int],
        deterministic: bool,
    ) -> Tensor:
        from torch.nn.attention.varlen import varlen_attn

        size = q.shape[-1]
        _validate(q, size)
        scale = size**-0.5 if scale is None else scale
        missing = -size % HEAD_STEP
        if missing:  # entries of 0 change no score
            q, k, v = (functional.pad(tensor, (0, missing)) for tensor in (q, k, v))
        q, k, v = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (q, k, v))
        out = varlen_attn(
            q, k, v, self._cu_q, self._cu_k, self._max_q, self._max_k, scale=scale, window_size=window
        )
        assert isinstance(out, Tensor)  # a pair where `return_aux` is given
        if deterministic:
            make_backward_deterministic(out)
        return out[..., :size] if missing else out


def make_backward_deterministic(out: Tensor) -> None:
    """Have the node that made `out` run its backward pass under `torch.use_deterministic_algorithms`.

    torch's kernels know no argument for it: they look at the global switch, and take `warn_only`, which verl
    sets, for no. The switch is put back right after the node.
    """
    node = out.grad_fn
    if node is None:
        return
    found: list[tuple[bool, bool]] = []

    def enter(_: object) -> None:
        found.append(
            (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            )
        )
        torch.use_deterministic_algorithms(True)

    def leave(*_: object) -> None:
        enabled, warn_only = found.pop()
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)

    node.register_prehook(enter)
    node.register_hook(leave)


def _validate(q: Tensor, size: int) -> None:
    if q.dtype not in KERNEL_DTYPES:
        raise UserError(
            f"flash_attention_2 on {q.device.type} computes in bfloat16 or float16, not in {q.dtype}: set "
            "mixed_precision.param_dtype=bf16 of the engine, or attn_implementation=sdpa and "
            "use_remove_padding=False of the model"
        )
    if size > LARGEST_HEAD:
        raise UserError(
            f"flash_attention_2 takes heads of up to {LARGEST_HEAD}, this model has {size}: set "
            "attn_implementation=sdpa and use_remove_padding=False"
        )


def _refuse(**options: object) -> None:
    asked = [name for name, value in options.items() if value is not None and not _is_off(value)]
    if asked:
        raise UserError(
            f"torch.nn.attention.varlen has no {', '.join(asked)}: set it to 0 in the model's configuration "
            "(override_config), or install flash-attn (docagent-rl doctor says which build)"
        )


def _is_off(value: object) -> bool:
    return isinstance(value, bool | int | float) and not value
