from __future__ import annotations

from collections import Counter
from itertools import takewhile

import pytest
from omegaconf import OmegaConf

from docagent_rl import recipe_check
from docagent_rl.errors import UserError
from docagent_rl.recipe_check import ANNOUNCED_ESTIMATORS, check_recipe, check_recipes, composed
from docagent_rl.recipe_list import (
    ablation_names,
    ablation_recipes,
    ablation_row,
    ablation_summary,
    recipe_names,
)

RECIPE = "vrag_rl_qwen2_5_vl_7b"
MINE = f"""\
# python -m verl.trainer.main_ppo --config-name mine
defaults:
  - {RECIPE}
  - _self_
"""


def first_of(recipe):
    """The ablations whose list of recipes this one opens, so that each is checked once."""
    return [name for name in ablation_names(recipe) if ablation_recipes(name)[0] == recipe]


@pytest.fixture
def mine(tmp_path):
    def check(text, ablation=None):
        (tmp_path / "mine.yaml").write_text(MINE + text)
        if ablation is not None:
            (tmp_path / "ablations").mkdir()
            (tmp_path / "ablations" / "small.yaml").write_text(ablation)
        return check_recipe("mine", tmp_path)

    return check


@pytest.mark.parametrize("recipe", recipe_names())
def test_shipped_recipes_are_in_order(recipe):
    findings = check_recipe(recipe, ablations=first_of(recipe))
    assert [f.problem for f in findings if f.problem] == []
    assert len(findings) == 2 * (1 + len(first_of(recipe)))
    # what waits, waits throughout, and names the estimator of the recipe
    assert len({f.waits_for for f in findings}) == 1
    if findings[0].waits_for is not None:
        assert findings[0].waits_for in ANNOUNCED_ESTIMATORS
        assert composed(recipe).algorithm.adv_estimator == findings[0].waits_for
        assert findings[0].verdict == f"waits for estimator {findings[0].waits_for}"


def test_recipes_of_one_system_differ_from_their_baseline_in_the_estimator_alone():
    for size in ("4b", "8b"):
        spo, grpo = composed(f"mm_doc_r1_qwen3_{size}"), composed(f"mm_doc_r1_qwen3_{size}_grpo")
        assert (spo.algorithm.adv_estimator, grpo.algorithm.adv_estimator) == ("spo", "grpo")
        spo.algorithm.adv_estimator = "grpo"
        # what the estimator alone reads
        spo.docagent.advantage = grpo.docagent.advantage
        spo.trainer.experiment_name = grpo.trainer.experiment_name
        assert spo == grpo


@pytest.mark.parametrize("ablation", ["vrag_pages_per_search_4", "vrag_cold_start"])
def test_ablations_are_merged_as_hydra_merges_them(ablation, monkeypatch):
    seen = []
    monkeypatch.setattr(recipe_check, "_judged", lambda finding, config: seen.append(config) or finding)
    findings = check_recipe(RECIPE, ablations=[ablation])
    assert [f.overrides for f in findings] == [
        [],
        [f"+ablations={ablation}"],
        ["+profile=cpu"],
        [f"+ablations={ablation}", "+profile=cpu"],
    ]
    assert len({OmegaConf.to_yaml(config) for config in seen}) == 4
    for finding, config in zip(findings, seen, strict=True):
        assert composed(RECIPE, finding.overrides) == config


def test_every_ablation_says_what_it_is_and_where_it_belongs():
    for name in ablation_names():
        assert set(ablation_recipes(name)) <= set(recipe_names())
        assert ablation_summary(name).endswith(".")
        assert ablation_row(name)
    prefixes = {"vrag": "vrag_rl", "unidoc": "unidoc_rl", "docvstar": "doc_v_star"}
    prefixes |= {"mmdocr1": "mm_doc_r1", "alden": "alden"}
    for name in ablation_names():
        system = prefixes[name.split("_")[0]]
        assert all(recipe.startswith(system) for recipe in ablation_recipes(name))
    assert Counter(name.split("_")[0] for name in ablation_names()).keys() == prefixes.keys()


def test_every_ablation_changes_something():
    idle = set()
    for recipe in recipe_names():
        plain = composed(recipe) if first_of(recipe) else None
        for name in first_of(recipe):
            change = recipe_check._load(recipe_check.ROOT / "ablations" / f"{name}.yaml")
            if OmegaConf.merge(plain, change) == plain:
                idle.add(name)
    assert idle == NO_CHANGE


NO_CHANGE = {"mmdocr1_no_vlm_read"}
"""They undo what a user has to set, such as the endpoint of a model."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainer: {sav_freq: 3}", r"trainer\.sav_freq: unknown key; did you mean trainer\.save_freq"),
        ("docagent: {env: {variant: published}}", r"docagent\.env\.variant"),
        ("algorithm: {adv_estimator: grop}", "adv_estimator=grop is not registered"),
        ("data: {max_response_length: 150}", "impossible budget"),
        (
            "data: {train_batch_size: 33}",
            r"data\.train_batch_size=33 times .*rollout\.n=5 is 165, which 8 GPUs",
        ),
        (
            "actor_rollout_ref: {actor: {ppo_mini_batch_size: 40}}",
            r"actor\.ppo_mini_batch_size=40 is above data\.train_batch_size=32",
        ),
        (
            "actor_rollout_ref: {actor: {ppo_mini_batch_size: 4}}",
            r"actor\.ppo_mini_batch_size=4 times .*n=5 is 20 rows, which 8 data-parallel",
        ),
        (
            "critic: {enable: true, ppo_mini_batch_size: 4, ppo_micro_batch_size_per_gpu: 1}",
            r"critic\.ppo_mini_batch_size=4 times .*n=5 is 20 rows",
        ),
        (
            "actor_rollout_ref: {rollout: {tensor_model_parallel_size: 3}}",
            r"8 GPUs cannot be divided into servers of 3 \(tensor_model_parallel_size=3\)",
        ),
        (
            "actor_rollout_ref: {rollout: {log_prob_micro_batch_size_per_gpu: null}}",
            "log_prob_micro_batch_size",
        ),
        ("docagent: {", "recipe mine: while parsing"),
    ],
)
def test_a_broken_recipe_is_reported_by_name(mine, text, message):
    import re

    plain = mine(text)[0]
    assert (plain.recipe, plain.profile, plain.ablation) == ("mine", None, None)
    assert re.search(message, plain.problem)
    assert plain.verdict == plain.problem


def test_dynamic_batches_may_hold_more_than_a_batch(mine):
    text = "actor_rollout_ref: {actor: {ppo_mini_batch_size: 40, use_dynamic_bsz: true}}"
    assert [f.verdict for f in mine(text)] == ["ok", "ok"]


def test_an_estimator_that_is_announced_is_waited_for_unless_something_else_is_wrong(mine, monkeypatch):
    monkeypatch.setattr(recipe_check, "ANNOUNCED_ESTIMATORS", frozenset({"coming"}))
    assert [f.verdict for f in mine("algorithm: {adv_estimator: coming}")] == [
        "waits for estimator coming"
    ] * 2
    finding = mine("algorithm: {adv_estimator: coming}\ndata: {train_batch_size: 33}")[0]
    assert "train_batch_size=33" in finding.verdict


def test_a_broken_ablation_is_reported_with_what_leads_to_it(mine):
    findings = mine(
        "", "# @package _global_\n# Small.\n# for: mine\n# paper: -\ndocagent: {env: {max_turn: 3}}\n"
    )
    bad = [f for f in findings if f.problem]
    assert [f.overrides for f in bad] == [["+ablations=small"], ["+ablations=small", "+profile=cpu"]]
    assert all("docagent.env.max_turn: unknown key" in f.problem for f in bad)


def test_an_ablation_that_does_not_say_where_it_belongs(mine):
    with pytest.raises(UserError, match=r"small\.yaml: the line `# for: \.\.\.` is missing"):
        mine("", "# @package _global_\n# Small.\ndocagent: {}\n")


def test_a_recipe_that_hydra_cannot_compose(tmp_path):
    (tmp_path / "mine.yaml").write_text("defaults: [nowhere]\n")
    (finding,) = check_recipe("mine", tmp_path)
    assert "nowhere" in finding.problem


def test_unknown_names():
    with pytest.raises(UserError, match="there is no recipe 'vrag'; known are alden_hybrid"):
        list(takewhile(bool, check_recipes(["vrag"])))
