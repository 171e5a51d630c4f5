import pytest

from docagent_rl.checks import fit
from docagent_rl.checks.budget import total
from docagent_rl.checks.budget_table import CRITIC_OFFLOADED, ON_GPU, POLICY_OFFLOADED
from docagent_rl.checks.cards import card_memory, usable
from docagent_rl.checks.fit import Training, candidates, largest_fit
from docagent_rl.checks.recipe_check import (
    AS_WRITTEN,
    Cluster,
    budget_of_recipe,
    composed_recipe,
    held_trajectories,
)

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


@pytest.mark.parametrize(
    ("recipe", "overrides"),
    [
        ("alden_qwen3_vl_8b", ("+lora=gpu_24", *CRITIC_OFFLOADED)),
        ("alden_qwen2_5_vl_7b", (*POLICY_OFFLOADED, "critic.model.path=Qwen/Qwen3-8B")),
        ("mm_doc_r1_qwen3_4b", ("+lora=gpu_80",)),
    ],
)
def test_overrides_are_merged_as_hydra_composes_them(recipe, overrides):
    assert fit._composed(recipe, overrides) == composed_recipe(recipe, overrides)


def test_lines_come_as_soon_as_they_are_known(monkeypatch):
    asked = []
    monkeypatch.setattr(fit, "candidates", lambda system: asked.append(system) or [])
    lines = fit.fit_lines(ONE, card_memory("24GB"), ["vrag_rl", "alden"])
    head = [next(lines) for _ in range(4)]
    assert head[0].startswith("# The largest runs on 1 x 1 GPUs")
    assert asked == []
    assert next(lines).startswith("| vrag_rl | all weights: nothing fits |")
    assert asked == ["vrag_rl"]
    assert list(lines)[-2:] == ["```bash", "```"]


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
    largest = largest_fit([known[name] for name in recipes], Training.ADAPTER, ONE, memory)
    assert (largest and largest.recipe) == found
    if largest is None:
        return
    _, overrides = largest.command.split(f"--config-name {largest.recipe}")
    lines = budget_of_recipe(largest.recipe, overrides.split(), AS_WRITTEN, memory)
    for place in ON_GPU:
        assert total(lines, place) == total(largest.lines, place) <= usable(memory)


def test_caches_hold_the_longest_trajectories_of_all_servers():
    name = "doc_v_star_qwen2_5_vl_7b"
    lines = budget_of_recipe(name, (), AS_WRITTEN, card_memory("80GB"))
    (line,) = [each.what for each in lines if "longest trajectories" in each.what]
    of_one_server = int(line.split("cache for ")[1].split()[0])
    # eight GPUs, two for each server
    assert held_trajectories(name, (), "80GB") == 4 * of_one_server
