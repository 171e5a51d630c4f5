"""verl's forward pass of Qwen2.5-VL: packed rows without flash-attn, and batches without an
image.
"""

import ast
import copy
import inspect
import itertools

import pytest
import torch
import transformers.integrations.flash_attention as integration
import transformers.models.qwen2_5_vl.modeling_qwen2_5_vl as qwen2_5
import transformers.models.qwen2_vl.modeling_qwen2_vl as qwen2
import verl.models.transformers.glm4v as copied
import verl.models.transformers.qwen2_vl as upstream
from torch import Tensor
from transformers import AutoModelForImageTextToText
from verl.models.transformers.monkey_patch import apply_monkey_patch

from docagent_rl.training.attention import flash_attn_varlen_func
from docagent_rl.training.hardware import flash_attn_version

without_flash_attn = pytest.mark.skipif(
    flash_attn_version() is not None, reason="flash-attn is installed"
)

IMAGE, START, END = 60, 62, 63
GRID = torch.tensor([[1, 8, 4]])
"""An image size in patches: eight image tokens, two windows of the vision tower."""
TEXT = [5, 6, 7, 8, 9]
WITH_IMAGE = [5, START, *[IMAGE] * 8, END, 6]


def positions(ids: list[int]) -> Tensor:
    """Return (4, n): the position in the row, then time, height and width."""
    text = torch.arange(len(ids))
    found = text.expand(4, -1).clone()
    if IMAGE in ids:
        first, after = ids.index(IMAGE), len(ids) - ids[::-1].index(IMAGE)
        found[1, first:after] = first
        found[2, first:after] = first + torch.arange(8) // 2
        found[3, first:after] = first + torch.arange(8) % 2
        found[1:, after:] = first + 4 + torch.arange(len(ids) - after)
    return found


@pytest.fixture
def eager(qwen2_5_vl_config):
    config = qwen2_5_vl_config
    config.text_config.initializer_range = config.vision_config.initializer_range = 0.3
    return AutoModelForImageTextToText.from_config(config, attn_implementation="eager").float()


@pytest.fixture
def packing(eager, monkeypatch):
    """Return the same model as verl changes it for packed rows; its classes are restored after the
    test.
    """
    for name in ("Model", "ForConditionalGeneration", "Attention"):
        for kind in (getattr(qwen2_5, f"Qwen2_5_VL{name}"), getattr(qwen2, f"Qwen2VL{name}")):
            monkeypatch.setattr(kind, "forward", kind.forward)
    monkeypatch.setattr(
        integration, "_flash_attention_forward", integration._flash_attention_forward
    )
    padded = copy.deepcopy(eager)  # has to answer before the classes are changed

    def pack(rows: list[list[int]], attention: str = "flash_attention_2") -> tuple[Tensor, Tensor]:
        wanted = torch.cat(_padded(padded, rows))
        eager.set_attn_implementation(attention)
        apply_monkey_patch(eager, use_remove_padding=True)
        found = eager(
            input_ids=torch.tensor([[*itertools.chain(*rows)]]),
            attention_mask=None,
            position_ids=torch.cat([positions(row) for row in rows], dim=1).unsqueeze(1),
            use_cache=False,
            **images(eager, rows),
        )
        return found.logits[0], wanted

    return eager, padded, pack


def images(model, rows: list[list[int]]) -> dict[str, Tensor]:
    count = sum(IMAGE in row for row in rows)
    if not count:
        return {}
    vision = model.config.vision_config
    size = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    pixels = torch.randn(32 * count, size, generator=torch.Generator().manual_seed(2))
    return {"pixel_values": pixels, "image_grid_thw": GRID.repeat(count, 1)}


def _padded(model, rows: list[list[int]]) -> list[Tensor]:
    """Return the logits of each row, from one padded batch that transformers' own forward reads."""
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    places = torch.stack(
        [torch.nn.functional.pad(positions(row), (0, longest - len(row))) for row in rows], dim=1
    )
    logits = model(
        input_ids=ids, attention_mask=mask, position_ids=places, **images(model, rows)
    ).logits
    return [logits[index, : len(row)] for index, row in enumerate(rows)]


@without_flash_attn
def test_upstream_still_lacks_the_names_without_flash_attn():
    guarded = next(
        node
        for node in ast.parse(inspect.getsource(upstream)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "is_flash_attn_2_available()"
    )
    assert "from flash_attn import" in ast.unparse(guarded)
    assert not upstream.is_flash_attn_2_available()


@without_flash_attn
def test_names_are_those_of_torch():
    for module in (upstream, copied):
        assert module.flash_attn_varlen_func is flash_attn_varlen_func
        assert module._flash_use_top_left_mask is False


@without_flash_attn
@pytest.mark.parametrize("rows", [[WITH_IMAGE, TEXT, WITH_IMAGE[:-1]], [TEXT, TEXT[:2]], [TEXT]])
def test_packed_rows_equal_the_padded_eager_forward(packing, rows):
    model, padded, pack = packing
    found, wanted = pack(rows)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    weights = torch.randn_like(found)
    (found * weights).sum().backward()
    (wanted * weights).sum().backward()
    for (name, got), other in zip(model.named_parameters(), padded.parameters(), strict=True):
        if other.grad is None:  # the vision tower of rows without an image: verl gives it zeros
            assert got.grad.abs().max() == 0, name
        else:
            error = (got.grad - other.grad).norm() / other.grad.norm().clamp(min=1e-6)
            assert error < 1e-3, name


IDS = torch.tensor([[5, 6, 7], [8, 9, 0]])


@pytest.fixture
def model(qwen2_5_vl_config):
    """Return the inner model, on which verl's forward calls `_get_input_embeds`."""
    return AutoModelForImageTextToText.from_config(qwen2_5_vl_config).model


def test_upstream_still_takes_the_mean_of_a_model_output(model):
    with pytest.raises(AttributeError, match="mean"):
        upstream._get_input_embeds.__wrapped__(model, IDS)


def test_embeddings_of_text_are_those_of_the_table(model):
    mask = torch.ones_like(IDS)
    embeds, returned = upstream._get_input_embeds(model, IDS, mask)
    assert torch.equal(embeds, model.get_input_embeddings()(IDS))
    assert torch.equal(returned, mask)
    # every visual parameter takes part, with gradient zero
    embeds, returned = upstream._get_input_embeds(model, IDS)
    assert returned is None
    embeds.sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.visual.named_parameters()}
    assert [name for name, gradient in gradients.items() if gradient is None] == []
    assert all(gradient.abs().max() == 0 for gradient in gradients.values())


def test_blank_image_is_where_the_embeddings_are_and_not_where_their_weight_is_kept(model):
    """Under FSDP2's offload, the weight is on the host again when its output is on the
    accelerator.
    """
    found = {}

    def receive(encoder, args, kwargs):
        found.update(pixels=args[0].device.type, grid=kwargs["grid_thw"].device.type)
        shape = args[0].shape  # the encoder itself is on the host here
        return (torch.zeros(shape),), {"grid_thw": torch.tensor([[1, 4, 4]])}

    model.get_input_embeddings().register_forward_hook(lambda _, args, output: output.to("meta"))
    model.visual.register_forward_pre_hook(receive, with_kwargs=True)
    embeds, mask = upstream._get_input_embeds(model, IDS, torch.ones_like(IDS))
    assert found == {"pixels": "meta", "grid": "meta"}
    assert (embeds.device.type, mask.device.type) == ("meta", "meta")
    assert model.get_input_embeddings().weight.device.type == "cpu"
