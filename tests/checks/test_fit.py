import pytest

from docagent_rl.checks.budget import total
from docagent_rl.checks.budget_table import CRITIC_OFFLOADED, ON_GPU
from docagent_rl.checks.cards import card_memory, usable
from docagent_rl.checks.fit import Training, candidates, largest_fit
from docagent_rl.checks.recipe_check import AS_WRITTEN, Cluster, budget_of_recipe

ONE = Cluster(1, 1)
SYSTEMS = ("vrag_rl", "unidoc_rl", "doc_v_star")


@pytest.mark.parametrize(
    ("card", "first"),
    [
        ("16", "gpu_24"),
        ("rtx4090", "gpu_24"),
        ("l40s", "gpu_48"),
        ("h100", "gpu_80"),
        ("h200", "gpu_80"),
    ],
)
def test_overlays_are_of_the_gpus_size_or_smaller(card, first):
    assert Training.ADAPTER.choices(card_memory(card))[0] == (f"+lora={first}",)


def test_the_largest_policy_comes_first_and_a_critic_may_be_smaller():
    found = candidates("alden")
    assert [each.parameters for each in found] == sorted(
        (each.parameters for each in found), reverse=True
    )
    assert {each.recipe for each in found} >= {"alden_qwen3_vl_4b", "alden_qwen2_5_vl_7b"}
    smaller = {each.recipe: each.critics for each in found}["alden_qwen3_vl_4b"]
    assert smaller[:2] == ((), CRITIC_OFFLOADED)
    assert smaller[2][-1] == "critic.model.path=Qwen/Qwen3-VL-2B-Instruct"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("card", "recipes", "found"),
    [
        ("24GB", ["unidoc_rl_qwen2_5_vl_7b", "unidoc_rl_qwen2_5_vl_3b"], "unidoc_rl_qwen2_5_vl_3b"),
        ("24GB", ["doc_v_star_qwen3_vl_4b", "doc_v_star_qwen3_vl_2b"], "doc_v_star_qwen3_vl_2b"),
        ("12", ["vrag_rl_qwen2_5_vl_3b"], None),
    ],
)
def test_the_command_is_that_of_a_run_within_the_gpu(card, recipes, found):
    memory = card_memory(card)
    known = {each.recipe: each for system in SYSTEMS for each in candidates(system)}
    fit = largest_fit([known[name] for name in recipes], Training.ADAPTER, ONE, memory)
    assert (fit and fit.recipe) == found
    if fit is None:
        return
    _, overrides = fit.command.split(f"--config-name {fit.recipe}")
    lines = budget_of_recipe(fit.recipe, overrides.split(), AS_WRITTEN, memory)
    assert all(total(lines, place) == total(fit.lines, place) <= usable(memory) for place in ON_GPU)
