"""Rows of a pack in Qwen3.5's delta layers, as verl runs them."""

from typing import Any

import pytest
import torch
import transformers.models.qwen3_5.modeling_qwen3_5 as qwen3_5
import transformers.models.qwen3_5_moe.modeling_qwen3_5_moe as qwen3_5_moe
import verl.models.transformers.qwen3_5 as upstream
from torch import Tensor

from docagent_rl.lab.tiny.shapes import tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer

LENGTHS = (70, 3, 130)
"""Tokens of each row: less than a chunk of 64, more than one, more than two."""
LAYERS = {
    "qwen3_5": qwen3_5.Qwen3_5GatedDeltaNet,
    "qwen3_5_moe": qwen3_5_moe.Qwen3_5MoeGatedDeltaNet,
}
TORCH_RULES = (qwen3_5.torch_chunk_gated_delta_rule, qwen3_5_moe.torch_chunk_gated_delta_rule)


def kernel(q, k, v, g, beta, cu_seqlens=None, cu_seqlens_cpu=None, cp_context=None, **kwargs):
    """Stand in for a kernel, with the parameters of flash-linear-attention 0.5.2."""


@pytest.fixture(params=LAYERS)
def layer(request) -> torch.nn.Module:
    config = tiny_config(build_tokenizer([]), request.param).text_config
    made = LAYERS[request.param](config, layer_idx=0)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def packed(layer: torch.nn.Module, rows: list[Tensor]) -> Tensor:
    """Return (t, hidden): the layer's output on one pack of all rows, in verl's forward pass."""
    ends = torch.tensor([0, *torch.tensor([len(row) for row in rows]).cumsum(0).tolist()])
    states = torch.cat(rows)[None]
    return upstream.qwen3_5_gated_delta_net_forward(
        layer, states, cu_seqlens=ends, cu_seqlens_cpu=ends
    )[0]


def rows_of(layer: torch.nn.Module) -> list[Tensor]:
    return [torch.randn(length, layer.hidden_size, requires_grad=True) for length in LENGTHS]


@pytest.mark.parametrize("rule", TORCH_RULES)
def test_upstream_still_takes_arguments_that_nobody_reads_for_support(rule):
    accepts = upstream._call_accepts_kwarg
    assert accepts.__wrapped__(rule, "cu_seqlens")  # else the patch is not needed
    assert not accepts(rule, "cu_seqlens")
    assert accepts(rule, "initial_state")


@pytest.mark.parametrize("name", ["cu_seqlens", "cu_seqlens_cpu", "cp_context"])
def test_a_kernel_that_names_them_gets_the_ends_of_rows(name):
    assert upstream._call_accepts_kwarg(kernel, name)
    assert not upstream._call_accepts_kwarg(lambda *args, **kwargs: None, name)


def test_rows_of_a_pack_do_not_see_each_other(layer):
    rows = rows_of(layer)
    weights = torch.randn(sum(LENGTHS), layer.hidden_size)
    found = packed(layer, rows)
    (found * weights).sum().backward()
    gradients = [row.grad for row in rows]
    alone = [row.detach().requires_grad_() for row in rows]
    # transformers' own forward pass, a row at a time
    wanted = torch.cat([layer(row[None])[0] for row in alone])
    (wanted * weights).sum().backward()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    for got, row in zip(gradients, alone, strict=True):
        torch.testing.assert_close(got, row.grad, rtol=1e-4, atol=1e-5)


def test_without_the_patch_they_do(layer, monkeypatch):
    rows = rows_of(layer)
    wanted = packed(layer, rows)
    monkeypatch.setattr(upstream, "_call_accepts_kwarg", upstream._call_accepts_kwarg.__wrapped__)
    apart = (packed(layer, rows) - wanted).detach().abs().amax(dim=1).split(LENGTHS)
    assert apart[0].max() < 1e-5  # the first row has none before it
    assert min(float(row.max()) for row in apart[1:]) > 1e-3


def test_a_pack_goes_to_a_kernel_that_knows_ends_in_one_piece(layer, monkeypatch):
    seen: dict[str, Any] = {}

    def fused(query, key, value, g, beta, cu_seqlens=None, cu_seqlens_cpu=None, **options):
        seen.update(tokens=query.shape[1], ends=cu_seqlens, cpu=cu_seqlens_cpu)
        return torch.zeros_like(value), None

    layer.chunk_gated_delta_rule = fused
    packed(layer, rows_of(layer))
    assert seen["tokens"] == sum(LENGTHS)
    assert seen["ends"].tolist() == seen["cpu"].tolist() == [0, 70, 73, 203]
