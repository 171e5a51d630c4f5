from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from docagent_rl.losses.tiles import Tiles

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
