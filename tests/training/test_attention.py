"""Attention over packed rows and log-probs of labels, compared with eager ones."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from docagent_rl.base.errors import UserError
from docagent_rl.training import attention
from docagent_rl.training.attention import (
    flash_attn_func,
    flash_attn_varlen_func,
    log_probs_of_labels,
    make_backward_deterministic,
)

LENGTHS = [5, 1, 12, 7]
both = pytest.mark.parametrize("causal", [True, False])
shapes = pytest.mark.parametrize(
    ("heads", "kv_heads", "size"), [(28, 4, 128), (16, 16, 80), (4, 1, 36)]
)


def eager_row(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None = None) -> Tensor:
    """Return eager attention for one row: q (n, heads, d), k and v (m, key heads, d)."""
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


def cumulative(lengths: list[int]) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)


def states(lengths: list[int], heads: int, kv_heads: int, size: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = [(sum(lengths), count, size) for count in (heads, kv_heads, kv_heads)]
    return [
        torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes
    ]


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def attend(tensors: list[Tensor], lengths: list[int], **options) -> Tensor:
    cu = cumulative(lengths)
    return flash_attn_varlen_func(
        *tensors, cu, cu, max(lengths), torch.tensor(max(lengths)), **options
    )


@both
@shapes
def test_packed_rows_on_the_processor_equal_eager_attention(heads, kv_heads, size, causal):
    tensors, cu = states(LENGTHS, heads, kv_heads, size), cumulative(LENGTHS)
    out, expected = attend(tensors, LENGTHS, causal=causal), eager_pack(*tensors, cu, cu, causal)
    close(out, expected)
    upstream = torch.randn_like(out)
    found, wanted = (torch.autograd.grad(each, tensors, upstream) for each in (out, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@both
def test_rows_of_one_length_equal_eager_attention(causal):
    q, k, v = (tensor.detach().unflatten(0, (3, 4)) for tensor in states([4, 4, 4], 6, 2, 16))
    out = flash_attn_func(q, k, v, causal=causal, softmax_scale=0.3)
    close(
        out, torch.stack([eager_row(*row, causal, scale=0.3) for row in zip(q, k, v, strict=True)])
    )


def test_last_query_is_level_with_the_last_key():
    q, k, v = (tensor.detach() for tensor in states([6], 2, 1, 8))
    out = flash_attn_varlen_func(q[-2:], k, v, cumulative([2]), cumulative([6]), 2, 6, causal=True)
    close(out, eager_row(q, k, v, causal=True)[-2:])


def test_query_without_a_key_gets_zeros_and_no_gradient():
    q, k, v = states([3], 2, 2, 8)
    out = flash_attn_varlen_func(
        q, k[:2], v[:2], cumulative([3]), cumulative([2]), 3, 2, causal=True
    )
    assert out[0].abs().max() == 0 < out[1].abs().min()
    (gradient,) = torch.autograd.grad(out, q, torch.ones_like(out))
    assert torch.isfinite(gradient).all()
    assert gradient[0].abs().max() == 0
    row_without_keys = flash_attn_varlen_func(
        q, k[:2], v[:2], cumulative([1, 2]), cumulative([0, 2]), 2, 2
    )
    assert row_without_keys[0].abs().max() == 0
    assert torch.isfinite(row_without_keys).all()


def test_window_hides_what_is_further_to_the_left():
    q, k, v = (tensor.detach() for tensor in states([6], 2, 2, 8))
    out = flash_attn_varlen_func(
        q, k, v, *[cumulative([6])] * 2, 6, 6, causal=True, window_size=(1, 1)
    )
    for place in range(6):
        seen = slice(max(0, place - 1), place + 1)
        close(
            out[place : place + 1], eager_row(q[place : place + 1], k[seen], v[seen], causal=False)
        )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("dropout_p", 0.1),
        ("softcap", 30.0),
        ("alibi_slopes", torch.ones(2)),
        ("s_aux", torch.ones(2)),
    ],
)
def test_what_the_kernels_do_not_compute_is_refused(option, value):
    with pytest.raises(UserError, match=r"torch\.nn\.attention\.varlen"):
        attend(states([3], 2, 2, 8), [3], **{option: value})


class Calls(TorchDispatchMode):
    """A record of the calls that reach torch's operators."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "torch_attn":
            self.found.append((function._schema.name, args))
        return function(*args, **(kwargs or {}))


def shapes_alone(
    lengths: list[int], size: int, dtype=torch.bfloat16
) -> tuple[list[Tensor], Tensor]:
    """Return states without values, with which torch's operators do everything but compute."""
    shapes = [(sum(lengths), count, size) for count in (28, 4, 4)]
    tensors = [
        torch.empty(shape, dtype=dtype, device="meta", requires_grad=True) for shape in shapes
    ]
    return tensors, torch.empty(len(lengths) + 1, dtype=torch.int64, device="meta")


@pytest.mark.parametrize(
    ("options", "is_causal", "window"),
    [
        ({"causal": True}, True, [-1, 0]),
        ({}, False, [-1, -1]),
        ({"causal": True, "window_size": (4, 4)}, False, [4, 0]),
    ],
)
@pytest.mark.parametrize(("size", "padded"), [(128, 128), (80, 80), (36, 40)])
def test_torchs_operators_get_these_arguments(options, is_causal, window, size, padded):
    tensors, cu = shapes_alone(LENGTHS, size)
    with Calls() as calls:
        out = flash_attn_varlen_func(*tensors, cu, cu, 12, 12, **options)
        found = torch.autograd.grad(out, tensors, torch.empty_like(out))
    assert [tuple(tensor.shape) for tensor in (out, *found)] == [
        (25, 28, size),
        *(t.shape for t in tensors),
    ]
    (forward, args), (backward, back) = calls.found
    assert (forward, backward) == ("torch_attn::_varlen_attn", "torch_attn::_varlen_attn_backward")
    assert [tuple(tensor.shape) for tensor in args[:3]] == [(25, n, padded) for n in (28, 4, 4)]
    assert [cu.dtype for cu in args[3:5]] == [torch.int32] * 2
    assert args[5:8] == (12, 12, is_causal)
    assert args[8] == pytest.approx(size**-0.5)
    assert args[9] == window
    assert back[10] == is_causal
    assert back[13] == window


@pytest.mark.parametrize(
    ("dtype", "size", "words"),
    [(torch.float32, 128, r"torch\.float32.*mixed_precision"), (torch.bfloat16, 264, r"256.*264")],
)
def test_what_torch_would_refuse_is_explained(dtype, size, words):
    tensors, cu = shapes_alone(LENGTHS, size, dtype)
    with pytest.raises(UserError, match=words):
        flash_attn_varlen_func(*tensors, cu, cu, 12, 12)


def switches() -> tuple[bool, bool]:
    """Return torch's switches: whether operators are deterministic, and whether others only cause a
    warning.
    """
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warn_only


class Spy(torch.autograd.Function):
    """A function that records the switches during its backward pass."""

    seen: tuple[bool, bool] | None = None

    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        Spy.seen = switches()
        return gradient


@pytest.mark.parametrize("enabled", [False, True])
def test_determinism_holds_for_the_one_node_and_is_put_back(enabled):
    leaf = torch.ones(2, requires_grad=True)
    torch.use_deterministic_algorithms(enabled, warn_only=enabled)
    try:
        inner = Spy.apply(leaf)
        make_backward_deterministic(inner)
        (inner * 2).sum().backward()
        state = switches()
    finally:
        torch.use_deterministic_algorithms(False)
    assert Spy.seen == (True, False)
    assert state == (enabled, enabled)
    assert leaf.grad.tolist() == [2, 2]


def logits_and_labels(shape: tuple[int, ...], dtype=torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    values = torch.randn(shape, generator=generator) * 4
    return values.to(dtype), torch.randint(shape[-1], shape[:-1], generator=generator)


@pytest.mark.parametrize("shape", [(7, 11), (2, 5, 11), (1, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equals_log_softmax_forward_and_backward(shape, dtype, monkeypatch):
    monkeypatch.setattr(attention, "BLOCK_ENTRIES", 22)  # blocks of two positions and of seven
    logits, labels = logits_and_labels(shape, dtype)
    logits.requires_grad_()
    exact = logits.detach().double().requires_grad_()
    found = log_probs_of_labels(logits, labels)
    expected = exact.log_softmax(-1).gather(-1, labels[..., None]).squeeze(-1)
    assert found.dtype == (torch.float64 if dtype is torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    weights = torch.randn(found.shape, dtype=found.dtype)
    (got,) = torch.autograd.grad(found, logits, weights)
    (wanted,) = torch.autograd.grad(expected, exact, weights.double())
    assert got.dtype == dtype
    tolerance = 1e-2 if dtype is torch.bfloat16 else 1e-6
    torch.testing.assert_close(got.double(), wanted, rtol=tolerance, atol=tolerance)
    assert torch.equal(logits.double(), exact)  # a leaf is left alone


@pytest.mark.parametrize("inplace", [True, False])
def test_gradient_takes_the_place_of_the_logits_only_when_allowed(inplace):
    weight, labels = logits_and_labels((6, 9))
    logits = weight.requires_grad_() * 1.5
    before = logits.detach().clone()
    (gradient,) = torch.autograd.grad(log_probs_of_labels(logits, labels, inplace).sum(), logits)
    assert (gradient.data_ptr() == logits.data_ptr()) is inplace
    assert torch.equal(logits, before) is not inplace
    one_hot = torch.nn.functional.one_hot(labels, 9)
    torch.testing.assert_close(gradient, one_hot - before.softmax(-1), rtol=1e-5, atol=1e-6)
