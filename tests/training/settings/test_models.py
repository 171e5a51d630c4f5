from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import composed
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.lab.tiny.shapes import build_processor, get_shape, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.training.settings.models import check_family, check_placeholder


@pytest.mark.parametrize(
    ("family", "ranks", "refused"), [("internvl", 2, True), ("internvl", 1, False), ("qwen3_vl", 2, False)]
)
def test_whole_images_are_trained_on_one_rank(family, ranks, refused):
    changes = [f"docagent.model_family={family}", f"trainer.n_gpus_per_node={ranks}", "docagent.workspace=w"]
    run = composed("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu", *changes])
    section = DocAgentConfig.parse(plain(run.docagent))
    if not refused:
        check_family(run, section, None)
        return
    with pytest.raises(UserError, match=r"model_family=internvl: .*n_gpus_per_node is 2"):
        check_family(run, section, None)


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_5", "internvl", "glm4v"])
def test_a_model_looks_for_images_where_its_processor_writes_them(family, tmp_path):
    tokenizer = build_tokenizer((), get_shape(family).tokens, get_shape(family).attributes)
    config = tiny_config(tokenizer, family)
    config.save_pretrained(tmp_path)
    written = build_processor(tokenizer, family).image_token_id
    check_placeholder("model.path", str(tmp_path), written)
    with pytest.raises(UserError, match=rf"model\.path.*{written}.*{written + 1}"):
        check_placeholder("model.path", str(tmp_path), written + 1)


def test_a_tiny_model_has_the_familys_small_grid():
    grids = []
    for profile in ([], ["+profile=cpu"]):
        run = composed(
            "vrag_rl_qwen2_5_vl_7b", [*profile, "docagent.model_family=internvl", "docagent.workspace=w"]
        )
        grids.append(DocAgentConfig.parse(plain(run.docagent)).env["display"]["grid"]["max_tiles"])
    assert grids == [12, 1]
