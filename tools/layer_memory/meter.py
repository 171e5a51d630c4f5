"""Measure the bytes that a call keeps for its backward pass, and its peak.

Tensors are torch's fake tensors, which have shapes and types but no memory, so that layers can be
counted at their released width on any machine. Fake GPU tensors cannot go backward without a GPU;
fake CPU tensors can, and `CudaCasts` casts them as autocast does on a GPU;
`tests/models/test_layers.py` compares the two.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from docagent_rl.training import attention

_REDUCTIONS = "cdist cumsum group_norm layer_norm log_softmax norm prod softmax sum"
_POWERS = "exp log pow reciprocal rsqrt softplus"
FLOAT32_ON_CUDA = frozenset([*_REDUCTIONS.split(" "), *_POWERS.split(" ")])
"""Functions that autocast computes in float32 on a GPU, but not on a CPU (torch,
`autocast_mode.h`).
"""


@dataclass(frozen=True)
class Memory:
    """Bytes used by one call, without parameters and their gradients."""

    kept: int
    """Bytes that autograd has saved at the end of the forward pass; each storage counts once."""
    peak: int
    """The most bytes alive at a time in forward and backward pass, without the call's inputs."""


class CudaCasts(TorchFunctionMode):
    """Makes autocast on a CPU compute in float32 the functions for which it does so on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function, with its arguments cast."""
        kwargs = kwargs or {}
        if func is Tensor.item:
            # a fake tensor has no value; this is a row's length, which `_Kernel` does not use
            return 1
        name = getattr(func, "__name__", "").strip("_")
        if name in FLOAT32_ON_CUDA and torch.is_autocast_enabled("cpu"):
            args, kwargs = tree_map_only(Tensor, _single, (args, kwargs))
        return func(*args, **kwargs)


def _single(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype is torch.bfloat16 else tensor


class LiveBytes(TorchDispatchMode):
    """Tracks the bytes of all storages that operations create, and their largest sum."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._alive: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operation, and track the storages it creates."""
        made = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self._follow, made)
        return made

    def _follow(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        size = storage.nbytes()
        if key in self._alive:
            return

        def gone(_: object) -> None:
            self.now -= size
            del self._alive[key]

        self._alive[key] = weakref.ref(storage, gone)
        self.now += size
        self.peak = max(self.peak, self.now)


class _Kernel(torch.autograd.Function):
    """Attention as a flash kernel saves it: queries, keys, values, output, sums of exponentials."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Take (tokens, heads, width) each; return the shape of `query`."""
        out = torch.empty_like(query)
        sums = torch.empty(query.shape[1], query.shape[0], dtype=torch.float32, device=query.device)
        ctx.save_for_backward(query, key, value, out, sums)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Return gradients, those of queries first in float32, as the kernel does."""
        query, key, value = ctx.saved_tensors[:3]
        summed = torch.empty(query.shape, dtype=torch.float32, device=query.device)
        return summed.to(query.dtype), torch.empty_like(key), torch.empty_like(value)


def _attend(query: Tensor, key: Tensor, value: Tensor, *others: Any, **options: Any) -> Tensor:
    return _Kernel.apply(query, key, value)


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Compute as verl does on a GPU: autocast to bfloat16, attention by a flash kernel."""
    with (
        patch.object(attention, "plain_varlen_attn", _attend),
        CudaCasts(),
        torch.autocast("cpu", torch.bfloat16),
    ):
        yield


def kept_by(module: nn.Module, call: Callable[[], Any]) -> int:
    """Return the bytes that autograd saves for a call, without the module's own tensors."""
    own = {each.untyped_storage()._cdata for each in (*module.parameters(), *module.buffers())}
    saved: dict[int, Any] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            saved[storage._cdata] = storage  # kept alive, so that its key is not reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = call()
    del output
    return sum(storage.nbytes() for storage in saved.values())


def measure(module: nn.Module, call: Callable[[], Any]) -> Memory:
    """Measure a call of a module and its backward pass; parameter gradients are freed at once."""
    learned = [each for each in module.parameters() if each.requires_grad]
    hooks = [each.register_post_accumulate_grad_hook(_drop) for each in learned]
    try:
        with as_on_a_gpu():
            kept = kept_by(module, call)
        with LiveBytes() as live:
            with as_on_a_gpu():
                output = call()
            output = output[0] if isinstance(output, tuple) else output
            output.backward(torch.empty_like(output))
    finally:
        for hook in hooks:
            hook.remove()
    return Memory(kept, live.peak)


def _drop(parameter: Tensor) -> None:
    parameter.grad = None


def per_token(
    module: nn.Module, call_of: Callable[[int], Callable[[], Any]], tokens: int
) -> Memory:
    """Return the bytes per additional token, from measurements with `tokens` and twice as many."""
    few, many = (measure(module, call_of(number)) for number in (tokens, 2 * tokens))
    kept = -(-(many.kept - few.kept) // tokens)
    return Memory(kept, -(-(many.peak - few.peak) // tokens))
