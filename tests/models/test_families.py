import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.documents.settings import DisplayError
from docagent_rl.models import check_config, families, get_family
from docagent_rl.rollout.images import image_tokens
from docagent_rl.rollout.patches import PatchFormat
from docagent_rl.training.settings.models import (
    check_model_type,
    known_model,
    on_meta,
    vision_modules,
)

PUBLISHED = {
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-VL-2B-Instruct": 2_127_532_032,
    "Qwen/Qwen3-VL-4B-Instruct": 4_437_815_808,
    "Qwen/Qwen3-VL-8B-Instruct": 8_767_123_696,
    "Qwen/Qwen3-VL-32B-Instruct": 33_357_390_064,
    "Qwen/Qwen3-VL-30B-A3B-Instruct": 31_070_754_032,
    "Qwen/Qwen3.5-4B": 4_539_265_536,
    "Qwen/Qwen3.5-9B": 9_409_813_744,
}
"""Parameters, as the checkpoints' files count them."""
QWEN3 = {"patch_size": 16, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
PROCESSORS = {
    "glm4v": ("Glm4vImageProcessor", {"size": {"shortest_edge": 12544, "longest_edge": 9633792}}),
    "qwen2_5_vl": (
        "Qwen2VLImageProcessor",
        {"size": {"shortest_edge": 3136, "longest_edge": 12845056}},
    ),
    **dict.fromkeys(
        ("qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"),
        (
            "Qwen2VLImageProcessor",
            {**QWEN3, "size": {"shortest_edge": 65536, "longest_edge": 16777216}},
        ),
    ),
}
"""Image processors of the released checkpoints, by family."""
SEEING = [family for family in families() if family.name in PROCESSORS]
"""Families whose images are patches of bytes; those of InternVL are not
(`tests/rollout/test_whole.py`).
"""


class Processor:
    def __init__(self, name, **changes):
        kind, settings = PROCESSORS[name]
        self.image_processor = getattr(transformers, kind)(**{**settings, **changes})


@pytest.mark.parametrize("name", [name for family in families() for name in family.released])
def test_models_have_as_many_parameters_as_their_checkpoints(name):
    model = known_model(name)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_a_name_that_no_family_lists_is_left_to_the_hub():
    assert known_model("somebody/model") is None


@pytest.mark.parametrize("family", SEEING, ids=lambda family: family.name)
@given(width=st.integers(1, 5000), height=st.integers(1, 5000))
def test_the_grid_is_that_of_the_processor(family, width, height):
    grid, processor = family.vision.grid, Processor(family.name)
    try:
        size = grid.resize((width, height))
    except DisplayError:
        return
    tokens = image_tokens([(width, height)], processor)
    assert [grid.tokens((width, height))] == tokens == [size[0] * size[1] // grid.unit**2]


@pytest.mark.parametrize("family", SEEING, ids=lambda family: family.name)
def test_the_processor_of_a_family_is_accepted_and_makes_patches_of_bytes(family):
    processor = Processor(family.name).image_processor
    family.check_processor(processor)
    assert PatchFormat.of(processor).side == family.vision.patch
    assert family.vision.patch * family.vision.merge == family.vision.grid.unit


@pytest.mark.parametrize("family", SEEING, ids=lambda family: family.name)
@pytest.mark.parametrize(
    "change",
    [
        {"patch_size": 15},
        {"merge_size": 4},
        {"size": {"shortest_edge": 3000, "longest_edge": 4_000_000}},
    ],
)
def test_a_processor_that_sees_otherwise_is_refused(family, change):
    with pytest.raises(UserError, match=f"model_family={family.name}: {next(iter(change))}"):
        family.check_processor(Processor(family.name, **change).image_processor)


@pytest.mark.parametrize("family", SEEING, ids=lambda family: family.name)
def test_the_tower_of_a_family_is_found_and_holds_its_vision(family):
    config = transformers.AutoConfig.for_model(family.model_types[0])
    model = on_meta(config)
    towers = tuple(f"{name}." for name, _ in vision_modules(model))
    seeing = [name for name, _ in model.named_parameters() if "visual" in name or "vision" in name]
    assert seeing
    assert all(name.startswith(towers) for name in seeing)


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_types_are_those_of_transformers_and_of_one_family(family):
    for name in family.model_types:
        assert name in transformers.CONFIG_MAPPING
        assert [each for each in families() if name in each.model_types] == [family]
        check_config(family, "a/model", name)


def test_tiles_are_those_of_the_familys_checkpoints_and_of_the_runs_grid():
    family, size = get_family("internvl"), {"height": 448, "width": 448}
    released = transformers.GotOcr2ImageProcessor(size=size, max_patches=12)
    family.check_processor(released)
    with pytest.raises(UserError, match=r"internvl: max_patches .* is 12, but 1 "):
        family.check_processor(released, family.vision.small)
    with pytest.raises(UserError, match=r"internvl: size\.height .* is 384, "):
        family.check_processor(transformers.GotOcr2ImageProcessor())


def test_a_small_gemma_4_is_taken_and_a_large_one_sees_in_both_directions(tmp_path):
    family = get_family("gemma4")
    family.check_processor(transformers.Gemma4ImageProcessor())
    with pytest.raises(UserError, match=r"gemma4: max_soft_tokens .* is 560, but 280 "):
        family.check_processor(transformers.Gemma4ImageProcessor(max_soft_tokens=560))
    config = transformers.Gemma4Config()
    config.save_pretrained(tmp_path)
    check_model_type(family, "model.path", str(tmp_path))
    config.text_config.use_bidirectional_attention = "vision"
    config.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"model\.path=.*both directions"):
        check_model_type(family, "model.path", str(tmp_path))


def test_what_there_is_not_is_named():
    with pytest.raises(UserError, match=r"qwen2_vl.*qwen3_vl"):
        get_family("qwen2_vl")
    with pytest.raises(
        UserError, match=r"model_family=qwen2_5_vl: m .*docagent\.model_family=qwen3_vl,"
    ):
        check_config(get_family("qwen2_5_vl"), "m", "qwen3_vl")
    with pytest.raises(UserError, match=r"no family supports it"):
        check_config(get_family("qwen2_5_vl"), "m", "mllama")
