"""Check attention over packed rows against plain attention on each row in float32.

Forward and backward are compared.
Head sizes are those of Qwen2.5-VL: 128 in the language model, causal, with 7 query heads per key
head; 80 in the vision tower, where all patches of an image or a window see each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from tools.gpu_check.attention import packed_attention
from tools.gpu_check.check import Machine, Result, expect, passed

ERROR = 0.03
"""Largest difference, relative to the largest number: bfloat16 has 8 bits."""


@dataclass(frozen=True)
class Case:
    """Numbers of query and key heads, their size, and whether later tokens are hidden."""

    name: str
    heads: int
    key_heads: int
    size: int
    causal: bool


CASES = (
    Case("language, 128", 28, 4, 128, True),
    Case("language of 3B, 128", 16, 2, 128, True),
    Case("vision, 80", 16, 16, 80, False),
)
LONG = (4096, 1, 777, 1280, 64)
SHORT = (33, 1, 64, 7)
"""The lengths of the rows of a pack, on a GPU and on a CPU."""


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    function, name = packed_attention()
    expect(
        function is not None,
        f"verl's forward pass of Qwen2.5-VL has no attention over packed rows ({name})",
    )
    lengths = SHORT if machine.gpu is None else LONG
    numbers: dict[str, Any] = {"function": name}
    for case in CASES:
        found, exact = _both(case, lengths, machine.device, function)
        for part, (ours, theirs) in zip(
            ("output", "dq", "dk", "dv"), zip(found, exact, strict=True), strict=True
        ):
            expect(bool(torch.isfinite(ours).all()), f"{case.name}: {part} is not finite")
            error = float((ours.float() - theirs).abs().max() / theirs.abs().max())
            numbers[f"{case.name}: {part}"] = error
            expect(
                error < ERROR, f"{case.name}: {part} differs from plain attention by {error:.4f}"
            )
    worst = max(value for value in numbers.values() if isinstance(value, float))
    where = "the kernels" if machine.gpu else "their plain form, for CPUs"
    return passed(
        f"{name}, {where}: {len(CASES)} cases forward and backward differ by at most {worst:.4f}",
        **numbers,
    )


def _both(
    case: Case, lengths: tuple[int, ...], device: str, function: Any
) -> tuple[list[Tensor], list[Tensor]]:
    """Return output and gradients of the packed rows, and of each row separately in float32."""
    draw = torch.Generator(device).manual_seed(0)
    total = sum(lengths)

    def normal(heads: int) -> Tensor:
        return torch.randn(total, heads, case.size, generator=draw, device=device).bfloat16()

    q = normal(case.heads)
    k = normal(case.key_heads)
    v = normal(case.key_heads)
    weight = normal(case.heads)
    ends = torch.tensor([0, *lengths], device=device).cumsum(0).int()
    packed = [each.clone().requires_grad_() for each in (q, k, v)]
    out = function(*packed, ends, ends, max(lengths), max(lengths), causal=case.causal)
    out.backward(weight)
    exact = [each.float().requires_grad_() for each in (q, k, v)]
    rows = [
        _plain(*parts, causal=case.causal)
        for parts in zip(*(each.split(lengths) for each in exact), strict=True)
    ]
    plain = torch.cat(rows)
    plain.backward(weight.float())
    return [out.detach(), *(p.grad for p in packed)], [plain.detach(), *(p.grad for p in exact)]


def _plain(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    groups = q.shape[1] // k.shape[1]
    k, v = (each.repeat_interleave(groups, dim=1) for each in (k, v))
    q, k, v = (each.transpose(0, 1)[None] for each in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=causal)[0].transpose(0, 1)
