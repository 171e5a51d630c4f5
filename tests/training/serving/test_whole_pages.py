"""vLLM's front end of a tiny InternVL gives the same features for images that are sent whole as for
pixels.
"""

import pytest
import torch

from docagent_rl.rollout.images import WholeImage, image_tokens, marks
from docagent_rl.training.serving.pages import PagePreprocessor, Pages
from docagent_rl.training.serving.requests import all_loaded, all_named, for_server
from tests.training.serving.conftest import open_front_end, reference
from tests.whole_processors import tiling_processor

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def processor():
    return tiling_processor(4)


@pytest.fixture(scope="module")
def front_end(tmp_path_factory, processor):
    return open_front_end(tmp_path_factory.mktemp("internvl"), processor, "internvl")


@pytest.fixture
def whole(pictures, processor):
    counts = image_tokens([picture.size for picture in pictures], processor)
    numbered = zip(pictures, counts, strict=True)
    return [
        WholeImage(reference(n, each.size), each, count) for n, (each, count) in enumerate(numbered)
    ]


async def test_the_engine_gets_what_vllm_makes_of_pixels(front_end, processor, whole, pictures):
    images, token, (before, after) = for_server(whole), processor.image_token_id, marks(processor)
    assert all_named(images)
    pages = Pages(front_end.renderer, torch.bfloat16)
    loaded, loads = await pages.load(images, every=False)
    assert (loads, all_loaded(loaded)) == (len(pictures), True)
    ids = [5]
    for image in whole:
        ids += [*before, *[token] * image.num_tokens, *after]
    request = {"prompt_token_ids": ids, "multi_modal_data": {"image": loaded}}
    mine = PagePreprocessor(front_end, pages).preprocess(request)
    # the second time they are in the cache
    again, loads = await pages.load(images, every=False)
    assert (loads, [image.value for image in again]) == (0, [None] * len(pictures))
    assert pages.input(ids, again)["mm_kwargs"]["image"] == [None] * len(pictures)
    front_end.renderer.mm_processor_cache.clear_cache()
    request = {
        "prompt_token_ids": [5, *[token] * len(pictures)],
        "multi_modal_data": {"image": pictures},
    }
    theirs = front_end.input_preprocessor.preprocess(request)
    assert mine["prompt_token_ids"] == theirs["prompt_token_ids"] == ids
    for found, other in zip(
        mine["mm_placeholders"]["image"], theirs["mm_placeholders"]["image"], strict=True
    ):
        assert found.offset == other.offset + len(before)
        assert found.length == int(other.is_embed.sum())
    for found, other in zip(mine["mm_kwargs"]["image"], theirs["mm_kwargs"]["image"], strict=True):
        assert found.keys() == other.keys()
        assert all(torch.equal(found[name].data, other[name].data) for name in other)
