import pytest

from docagent_rl.checks.budget import GIB, total
from docagent_rl.checks.fit import CRITIC_OFFLOADED, ON_GPU, Training, candidates, largest_fit
from docagent_rl.checks.recipe_check import AS_WRITTEN, Cluster, budget_of_recipe

ONE = Cluster(1, 1)
SYSTEMS = ("vrag_rl", "unidoc_rl", "doc_v_star")


@pytest.mark.parametrize(
    ("memory", "first"), [(16, "gpu_24"), (24, "gpu_24"), (50, "gpu_48"), (80, "gpu_80"), (140, "gpu_80")]
)
def test_overlays_are_of_the_gpus_size_or_smaller(memory, first):
    assert Training.ADAPTER.choices(memory)[0] == (f"+lora={first}",)


def test_the_largest_policy_comes_first_and_a_critic_may_be_smaller():
    found = candidates("alden")
    assert [each.parameters for each in found] == sorted((each.parameters for each in found), reverse=True)
    assert {each.recipe for each in found} >= {"alden_qwen3_vl_4b", "alden_qwen2_5_vl_7b"}
    smaller = {each.recipe: each.critics for each in found}["alden_qwen3_vl_4b"]
    assert smaller[:2] == ((), CRITIC_OFFLOADED)
    assert smaller[2][-1] == "critic.model.path=Qwen/Qwen3-VL-2B-Instruct"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "recipes", "found"),
    [
        (24, ["unidoc_rl_qwen2_5_vl_7b", "unidoc_rl_qwen2_5_vl_3b"], "unidoc_rl_qwen2_5_vl_3b"),
        (24, ["doc_v_star_qwen3_vl_4b", "doc_v_star_qwen3_vl_2b"], "doc_v_star_qwen3_vl_2b"),
        (12, ["vrag_rl_qwen2_5_vl_3b"], None),
    ],
)
def test_the_command_is_that_of_a_run_within_the_gpu(memory, recipes, found):
    known = {each.recipe: each for system in SYSTEMS for each in candidates(system)}
    fit = largest_fit([known[name] for name in recipes], Training.ADAPTER, ONE, memory)
    assert (fit and fit.recipe) == found
    if fit is None:
        return
    _, overrides = fit.command.split(f"--config-name {fit.recipe}")
    lines = budget_of_recipe(fit.recipe, overrides.split(), AS_WRITTEN, memory)
    assert all(total(lines, place) == total(fit.lines, place) <= memory * GIB for place in ON_GPU)
