import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.utils import hf_processor

from docagent_rl.lab.tiny.shapes import build_processor, get_shape, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.models import families
from docagent_rl.training.agent_loop.worker import DocAgentLoopWorker
from docagent_rl.training.compact_positions import compact, expand_positions, is_compact

SIZES = ((1, 30, 26), (1, 2, 40), (1, 14, 2))
"""Patches of three images over time, height and width."""
BOUND = 2**30 - 1


def same(found, expected):
    return found.dtype == expected.dtype == torch.int64 and torch.equal(found, expected)


@given(data=st.data(), axes=st.integers(0, 4), length=st.integers(1, 40))
def test_every_integer_comes_back(data, axes, length):
    numbers = st.integers(-BOUND, BOUND) | st.integers(-2, 2)
    count = length * max(axes, 1)
    drawn = torch.tensor(data.draw(st.lists(numbers, min_size=count, max_size=count)))
    positions = drawn.reshape(axes, length) if axes else drawn
    assert is_compact(compact(positions))
    assert same(expand_positions(compact(positions)), positions)


@pytest.mark.parametrize("positions", [torch.arange(0), torch.tensor([BOUND + 1])])
def test_what_does_not_fit_is_refused(positions):
    with pytest.raises(ValueError, match="32 bits"):
        compact(positions)


def test_whole_positions_are_not_taken_for_compact_ones():
    for row in (torch.arange(1), torch.arange(300), torch.arange(300).expand(4, -1)):
        assert not is_compact(row)


def row_of(processor):
    """Return a row's ids with text between images, and the images' grids."""
    image = getattr(processor, "image_token_id", None)
    ids = [5] * 50
    for time, high, wide in SIZES:
        ids += ([6] if image is None else [image]) * (time * high * wide // 4) + [7] * 400
    return torch.tensor(ids), torch.tensor(SIZES)


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_rows_of_every_family_are_stored_in_a_few_bytes(family, tmp_path):
    shape = get_shape(family.name)
    tokenizer = build_tokenizer((), shape.tokens, shape.attributes)
    tiny_config(tokenizer, family.name).save_pretrained(tmp_path)
    build_processor(tokenizer, family.name).save_pretrained(tmp_path)
    worker = object.__new__(DocAgentLoopWorker)
    worker.processor = hf_processor(str(tmp_path))
    assert (worker.processor is None) == (family.vision is None)

    ids, grids = row_of(worker.processor)
    own = super(DocAgentLoopWorker, worker)._compute_position_ids
    whole, stored = (
        compute(
            ids[None],
            torch.ones_like(ids)[None],
            {"image_grid_thw": grids, "mm_token_type_ids": torch.zeros_like(ids)},
        )
        for compute in (own, worker._compute_position_ids)
    )
    assert same(expand_positions(stored[0]), whole[0])
    assert stored.nbytes < 200
    assert whole[0].dim() == (2 if hasattr(worker.processor, "get_rope_index") else 1)
