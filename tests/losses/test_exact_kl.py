"""The exact divergence, computed in tiles, compared with the whole matrix of logits."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from docagent_rl.losses.exact_kl import Head, Tiles, exact_kl


@dataclass
class Pair:
    hidden: Tensor
    head: Head
    ref_hidden: Tensor
    ref_head: Head

    def kl(self, **options) -> Tensor:
        return exact_kl(self.hidden, self.head, self.ref_hidden, self.ref_head, **options)


def draw(
    seed: int, n: int = 5, v: int = 13, d: int = 4, scale: float = 1.0, dtype=torch.float64
) -> Pair:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).to(dtype)

    heads = [Head(normal(v, d).requires_grad_(), normal(v).requires_grad_()) for _ in range(2)]
    return Pair(normal(n, d).requires_grad_(), heads[0], normal(n, d).requires_grad_(), heads[1])


def naive(pair: Pair, temperature: float | Tensor = 1.0, vocabulary: int | None = None) -> Tensor:
    def log_softmax(hidden: Tensor, head: Head) -> Tensor:
        logits = hidden @ head.weight.T if head.bias is None else hidden @ head.weight.T + head.bias
        t = torch.as_tensor(temperature, dtype=logits.dtype).reshape(-1, 1)
        return (logits / t)[:, :vocabulary].log_softmax(1)

    p, q = log_softmax(pair.hidden, pair.head), log_softmax(pair.ref_hidden, pair.ref_head).detach()
    return (p.exp() * (p - q)).sum(1)


def gradients(value: Tensor, pair: Pair) -> tuple[Tensor, ...]:
    return torch.autograd.grad(
        (value * torch.arange(1, len(value) + 1)).sum(),
        (pair.hidden, pair.head.weight, pair.head.bias),
    )


def test_hand_computed():
    own = torch.tensor([0.6, 0.25, 0.149, 0.001], dtype=torch.float64)
    ref = torch.tensor([0.2, 0.7, 0.099, 0.001], dtype=torch.float64)
    # a log-prob of the last token sees nothing of it: 0.001 on both sides
    kl = exact_kl(
        own.log()[None], Head(torch.eye(4).double()), ref.log()[None], Head(torch.eye(4).double())
    )
    assert kl.item() == pytest.approx(0.4627, abs=5e-5)


@pytest.mark.parametrize("vocabulary", [None, 11])
@pytest.mark.parametrize("temperature", [1.0, 0.6, torch.tensor([0.5, 1.0, 2.0, 0.9, 1.1])])
def test_equal_to_naive(temperature, vocabulary):
    pair = draw(1)
    value = pair.kl(
        temperature=temperature, vocabulary=vocabulary, token_chunk=2, vocabulary_chunk=4
    )
    expected = naive(pair, temperature, vocabulary)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    ours = gradients(value, pair)
    for own, theirs in zip(ours, gradients(expected, pair), strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-12, atol=1e-12)
    if vocabulary:
        assert not ours[1][vocabulary:].any()


def test_without_bias_and_with_a_reference_of_another_width():
    pair, other = draw(2), draw(3, d=7)
    pair = Pair(pair.hidden, Head(pair.head.weight), other.ref_hidden, Head(other.ref_head.weight))
    torch.testing.assert_close(pair.kl(vocabulary_chunk=5), naive(pair))


@given(
    st.integers(0, 2**31),
    st.integers(1, 7),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(1, 25),
    st.floats(0, 30),
)
@settings(max_examples=25, deadline=None)
def test_any_chunks_give_the_same(seed, n, v, token_chunk, vocabulary_chunk, scale):
    pair = draw(seed, n, v, scale=scale)
    whole, cut = pair.kl(), pair.kl(token_chunk=token_chunk, vocabulary_chunk=vocabulary_chunk)
    assert (whole >= -1e-9).all()
    torch.testing.assert_close(cut, whole)
    torch.testing.assert_close(cut, naive(pair), rtol=1e-6, atol=1e-7)
    for ours, theirs in zip(gradients(cut, pair), gradients(whole, pair), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_zero_with_zero_gradient_where_both_are_equal(dtype):
    pair = draw(4, scale=4, dtype=dtype)
    value = exact_kl(
        pair.hidden, pair.head, pair.hidden, pair.head, token_chunk=2, vocabulary_chunk=3
    )
    assert value.tolist() == [0.0] * 5
    assert all(not gradient.any() for gradient in gradients(value, pair))


def test_half_precision_is_accumulated_in_float32():
    pair = draw(5, n=6, v=1000, d=64, scale=0.4, dtype=torch.bfloat16)
    value = pair.kl(token_chunk=4, vocabulary_chunk=512)
    exact = Pair(
        *(_double(part) for part in (pair.hidden, pair.head, pair.ref_hidden, pair.ref_head))
    )
    expected = naive(exact)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), expected, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(gradients(value, pair), gradients(expected, exact), strict=True):
        assert ours.dtype == torch.bfloat16
        torch.testing.assert_close(
            ours.double(), theirs, rtol=2e-2, atol=2e-2 * theirs.abs().max().item()
        )


def _double(part: Tensor | Head) -> Tensor | Head:
    if isinstance(part, Head):
        return Head(_double(part.weight), _double(part.bias))
    return part.detach().double().requires_grad_()


def test_autocast_does_not_lower_the_precision():
    pair = draw(6, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = pair.kl(vocabulary_chunk=4)
    torch.testing.assert_close(value, naive(pair))


def test_no_gradient_for_the_reference_nor_for_a_frozen_head():
    pair = draw(7)
    frozen = Head(pair.head.weight.detach(), pair.head.bias.detach())
    exact_kl(pair.hidden, frozen, pair.ref_hidden, pair.ref_head).sum().backward()
    assert pair.hidden.grad is not None
    assert pair.ref_hidden.grad is None
    assert pair.ref_head.weight.grad is None
    head_alone = exact_kl(pair.hidden.detach(), pair.head, pair.ref_hidden, pair.ref_head)
    torch.testing.assert_close(
        gradients_of_head(head_alone, pair), gradients_of_head(naive(pair), pair)
    )


def gradients_of_head(value: Tensor, pair: Pair) -> Tensor:
    return torch.autograd.grad(value.sum(), pair.head.weight)[0]


def test_a_reference_of_other_positions_is_refused():
    pair = draw(1)
    pair.ref_hidden = pair.ref_hidden[:1]  # would be broadcast
    with pytest.raises(ValueError, match="5 positions"):
        pair.kl()


def test_no_positions():
    pair = draw(8, n=0)
    value = pair.kl()
    assert value.shape == (0,)
    value.sum().backward()
    assert pair.hidden.grad.shape == (0, 4)
    assert not pair.head.weight.grad.any()


class Largest(TorchDispatchMode):
    """The largest number of elements in the result of any operation."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.numel = max(self.numel, result.untyped_storage().nbytes() // result.element_size())
        return result


def test_never_holds_more_than_a_tile():
    n, v, d = 20, 200, 2
    pair = draw(9, n, v, d)
    with Largest() as ours:
        pair.kl(token_chunk=5, vocabulary_chunk=20).sum().backward()
    with Largest() as theirs:
        naive(pair).sum().backward()
    # the head and its gradient are the largest: 200 * 2
    assert ours.numel == v * d
    assert theirs.numel == n * v


TILES = Tiles(2, 2, 1, 1, torch.float32)
A, B = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
PRODUCT = torch.tensor([[19.0, 22.0], [43.0, 50.0]])


@pytest.mark.parametrize(
    ("dtype", "kept"), [(torch.bfloat16, True), (torch.float16, True), (torch.float64, False)]
)
def test_a_gpu_multiplies_half_precision(dtype, kept):
    matrix = SimpleNamespace(dtype=dtype, is_cuda=True, to=lambda dtype: dtype)
    assert TILES.operand(matrix) is (matrix if kept else torch.float32)


@pytest.mark.parametrize(
    ("left", "right"), [("float32", "float32"), ("float32", "bfloat16"), ("float16", "float16")]
)
def test_products_are_accumulated_in_float32(monkeypatch, left, right):
    # of half precision a GPU alone has it
    monkeypatch.setattr(torch, "mm", lambda a, b, out_dtype: a.to(out_dtype) @ b.to(out_dtype))
    a, b = A.to(getattr(torch, left)), B.to(getattr(torch, right))
    torch.testing.assert_close(TILES.product(a, b), PRODUCT)
    total = torch.ones(2, 2)
    TILES.add_product(total, a, b)
    torch.testing.assert_close(total, PRODUCT + 1)
