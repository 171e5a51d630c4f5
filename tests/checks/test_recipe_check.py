import re

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks import recipe_check
from docagent_rl.checks.preflight import check_statically
from docagent_rl.checks.recipe_check import check_recipe, composed_recipe
from docagent_rl.checks.recipe_list import (
    ablation_names,
    ablation_recipes,
    ablation_row,
    ablation_summary,
    recipe_names,
    require_recipes,
)
from docagent_rl.systems import SYSTEMS
from tools.recipe_provenance import provenance_problems

RECIPE = "vrag_rl_qwen2_5_vl_7b"
HEAD = "# @package _global_\n# Small.\n"


@pytest.fixture
def mine(tmp_path):
    def check(text, ablation=None, above=RECIPE):
        (tmp_path / "mine.yaml").write_text(f"defaults:\n  - {above}\n  - _self_\n{text}")
        if ablation is not None:
            (tmp_path / "ablations").mkdir()
            (tmp_path / "ablations" / "small.yaml").write_text(HEAD + ablation)
        return check_recipe("mine", tmp_path)

    return check


@pytest.mark.parametrize(
    ("above", "env", "problem"),
    [
        (f"{RECIPE}\n  - env: own", "{max_image_tokens: 100}", None),
        (f"{RECIPE}\n  - env: own", "{max_turn: 100}", "docagent.env.max_turn"),
        ("mm_doc_r1_qwen3_8b", "null", None),
    ],
)
def test_a_system_of_ones_own_inherits_a_recipe_without_the_keys_of_its_environment(
    mine, monkeypatch, above, env, problem
):
    monkeypatch.syspath_prepend("examples")
    found = mine(f"docagent: {{system: 'custom_system:SYSTEM', env: {env}}}\n", above=above)
    assert [str(f.problem).count(str(problem)) for f in found] == [1, 1]


def test_the_base_has_no_system_and_runs_one_of_ones_own(monkeypatch):
    monkeypatch.syspath_prepend("examples")
    with pytest.raises(UserError, match=r"docagent\.system"):
        check_statically(composed_recipe("base"))
    for profile in ([], ["+profile=cpu"]):
        config = composed_recipe("base", ["docagent.system=custom_system:SYSTEM", *profile])
        assert check_statically(config).system == "custom_system:SYSTEM"
    assert "base" not in recipe_names(kind=None)


def test_an_ablation_that_changes_nothing_is_named(mine):
    found = mine("trainer: {save_freq: 3}\n", "# for: mine\ntrainer: {save_freq: 3}\n")
    assert [f.ablation for f in found if f.problem] == ["small"]


def test_an_ablation_to_a_default_that_the_recipe_does_not_write_changes_nothing(mine, monkeypatch):
    monkeypatch.syspath_prepend("examples")
    system = "docagent: {system: 'custom_system:SYSTEM'}\n"
    found = mine(system, "# for: mine\ndocagent: {env: {max_image_tokens: 72}}\n", above="base")
    assert [f.ablation for f in found if f.problem == "changes nothing"] == ["small"]


def test_a_recipe_is_named_by_its_file(mine, tmp_path):
    mine("trainer: {save_freq: 3}\n")
    path = str(tmp_path / "mine.yaml")
    assert composed_recipe(path) == composed_recipe("mine", root=tmp_path)
    assert composed_recipe(path).trainer.save_freq == 3
    with pytest.raises(UserError, match="gone"):
        composed_recipe(str(tmp_path / "gone.yaml"))


@pytest.mark.parametrize("ablation", ["# for: mine\n- 1\n", "# for: mine\na: {b", "docagent: {}\n"])
def test_an_ablation_that_cannot_be_read_is_named(mine, ablation):
    with pytest.raises(UserError, match=r"small\.yaml: "):
        mine("", ablation)


@pytest.mark.slow(first=True)
@pytest.mark.parametrize("recipe", recipe_names())
def test_shipped_recipes_are_in_order_and_each_ablation_changes_something(recipe):
    # each is checked once, with the first recipe that it is for
    own = [name for name in ablation_names(recipe) if ablation_recipes(name)[0] == recipe]
    config = composed_recipe(recipe)
    assert recipe.startswith(f"{config.docagent.system}_")
    assert provenance_problems(recipe, config) == []
    findings = check_recipe(recipe, ablations=own)
    assert [f.problem for f in findings if f.problem] == []
    assert len(findings) == 2 * (1 + len(own))


def test_ablations_are_merged_as_hydra_merges_them(monkeypatch):
    ablation, seen = "vrag_rl/no_crop", []
    monkeypatch.setattr(
        recipe_check, "with_problem", lambda finding, config, _: seen.append(config) or finding
    )
    findings = check_recipe(RECIPE, ablations=[ablation])
    added = [f"+ablations={ablation}"]
    assert [f.overrides for f in findings] == [
        [],
        added,
        ["+profile=cpu"],
        [*added, "+profile=cpu"],
    ]
    assert [composed_recipe(RECIPE, finding.overrides) for finding in findings] == seen
    assert [config.docagent.env.get("grammar", {}).get("crop") for config in seen[1::2]] == [
        False,
        False,
    ]
    several = composed_recipe(
        RECIPE, ["+ablations=[vrag_rl/no_crop,vrag_rl/pad_28]", "+profile=cpu"]
    )
    assert several.docagent.env.grammar.crop is False


def test_every_ablation_says_what_it_is_and_lies_in_the_folder_of_its_system(tmp_path):
    for name in ablation_names():
        assert ablation_summary(name).endswith(".")
        assert all(
            recipe.startswith(f"{name.partition('/')[0]}_") for recipe in ablation_recipes(name)
        )
    assert {name.partition("/")[0] for name in ablation_names()} == set(SYSTEMS)
    # a folder of one's own may hold ablations of no system
    (tmp_path / "ablations" / "mine").mkdir(parents=True)
    for name in ("small", "mine/smaller"):
        (tmp_path / "ablations" / f"{name}.yaml").write_text("# x\n# y\n# for: good\n")
    assert ablation_names(root=tmp_path) == ["mine/smaller", "small"]
    assert (ablation_row("small", tmp_path), ablation_summary("small", tmp_path)) == ("", "y")


def test_a_broken_recipe_is_reported_by_name(mine):
    plain = mine("trainer: {sav_freq: 3}")[0]
    assert (plain.recipe, plain.profile, plain.ablation) == ("mine", None, None)
    assert re.search(r"trainer\.sav_freq: .*trainer\.save_freq", plain.problem)
    assert "nowhere" in mine("  - nowhere\n")[0].problem
    findings = mine("", "# for: mine\n# paper: -\ndocagent: {env: {max_turn: 3}}\n")
    bad = {tuple(f.overrides): f.problem for f in findings if f.problem}
    assert bad.keys() == {("+ablations=small",), ("+ablations=small", "+profile=cpu")}
    assert all("docagent.env.max_turn" in problem for problem in bad.values())
    with pytest.raises(UserError, match=r"'vrag'.*alden_hybrid"):
        require_recipes(["vrag"])
    with pytest.raises(
        UserError, match=r"'vrag_rl_qwen2_5_vl_77b'; did you mean vrag_rl_qwen2_5_vl_7b\?"
    ):
        composed_recipe("vrag_rl_qwen2_5_vl_77b")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            [
                "critic.enable=true",
                "critic.ppo_mini_batch_size=4",
                "critic.ppo_micro_batch_size_per_gpu=1",
            ],
            r"critic\.ppo_mini_batch_size=4 .*n=5 .*20",
        ),
        (
            ["actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm"],
            "loss_scale_factor=9216",
        ),
        (["actor_rollout_ref.model.fused_kernel_options.impl_backend=null"], "impl_backend=None"),
        (
            ["critic.enable=true", "critic.model.use_fused_kernels=true"],
            r"critic\.model\.use_fused_kernels",
        ),
        (
            ["actor_rollout_ref.actor.ppo_max_token_len_per_gpu=10000"],
            r"len_per_gpu=10000 .*=10240",
        ),
        # dynamic batches may hold more than a batch
        (
            [
                "actor_rollout_ref.actor.ppo_mini_batch_size=40",
                "actor_rollout_ref.actor.loss_agg_mode=token-mean",
            ],
            "None",
        ),
    ],
)
def test_what_a_recipe_cannot_have_is_found(overrides, message):
    finding = recipe_check.with_problem(
        recipe_check.RecipeFinding("mine"), composed_recipe(RECIPE, overrides)
    )
    assert re.search(message, str(finding.problem))
