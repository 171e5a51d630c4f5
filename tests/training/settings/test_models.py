from __future__ import annotations

import pytest

from docagent_rl.checks.recipe_check import composed
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.training.settings.models import family_problems


@pytest.mark.parametrize(
    ("family", "ranks", "refused"), [("internvl", 2, True), ("internvl", 1, False), ("qwen3_vl", 2, False)]
)
def test_whole_images_are_trained_on_one_rank(family, ranks, refused):
    changes = [f"docagent.model_family={family}", f"trainer.n_gpus_per_node={ranks}", "docagent.workspace=w"]
    run = composed("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu", *changes])
    section = DocAgentConfig.parse(plain(run.docagent))
    problems = list(family_problems(run, section, None))
    assert len(problems) == refused
    assert all("n_gpus_per_node is 2" in problem for problem in problems)


def test_a_tiny_model_has_the_familys_small_grid():
    grids = []
    for profile in ([], ["+profile=cpu"]):
        run = composed(
            "vrag_rl_qwen2_5_vl_7b", [*profile, "docagent.model_family=internvl", "docagent.workspace=w"]
        )
        grids.append(DocAgentConfig.parse(plain(run.docagent)).env["display"]["grid"]["max_tiles"])
    assert grids == [12, 1]
