import pytest
from verl.utils import hf_processor

from docagent_rl.lab.tiny.shapes import build_processor, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.patches import other_processors
from tests.whole_processors import tiling_processor


def saved(folder, processor, family):
    tokenizer = getattr(processor, "tokenizer", processor)
    tiny_config(tokenizer, family).save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)


def test_a_processor_that_upstream_does_not_list_is_loaded(tmp_path):
    path = saved(tmp_path, tiling_processor(1), "internvl")
    with pytest.warns(UserWarning, match="Unsupported processor type: InternVLProcessor"):
        unlisted = hf_processor.__wrapped__(path)
    assert unlisted is None  # else the patch is not needed
    found = hf_processor(path)
    assert (type(found).__name__, found.config.model_type) == ("InternVLProcessor", "internvl")
    assert not hasattr(found, "get_rope_index")


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3"])
def test_positions_of_a_models_own_are_left_to_upstream_and_texts_have_no_processor(
    tmp_path, family
):
    path = saved(tmp_path, build_processor(build_tokenizer(), family), family)
    assert other_processors._unlisted(path, {}) is None
    assert (hf_processor(path) is None) == (family == "qwen3")
