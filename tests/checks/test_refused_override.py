import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checks.recipe_check import composed_recipe

RECIPE = "vrag_rl_qwen2_5_vl_7b"
SFT = "sft_vrag_rl_qwen2_5_vl_7b"


@pytest.mark.parametrize(
    ("recipe", "override", "said"),
    [
        (
            RECIPE,
            "actor_rollout_ref.actor.optim.lrr=1e-6",
            "actor_rollout_ref.actor.optim.lrr: unknown key; did you mean "
            "actor_rollout_ref.actor.optim.lr?",
        ),
        (RECIPE, "trainr.nnodes=2", "trainr: unknown key; did you mean trainer?"),
        (
            RECIPE,
            "docagent.retriver.kind=bm25",
            "docagent.retriver: unknown key; did you mean docagent.retriever?",
        ),
        (
            RECIPE,
            "docagent.judge.modle=m",
            "docagent.judge.modle: unknown key; did you mean docagent.judge.model?",
        ),
        (
            RECIPE,
            "docagent.env.max_turnss=3",
            "docagent.env.max_turnss: unknown key; did you mean docagent.env.max_turns?",
        ),
        (
            SFT,
            "optim.lrr=1e-6",
            "optim.lrr: unknown key; did you mean optim.lr?",
        ),
    ],
)
def test_a_key_with_a_typing_error_is_answered_with_the_key_that_was_meant(recipe, override, said):
    with pytest.raises(UserError) as refused:
        composed_recipe(recipe, [override])
    assert str(refused.value) == f"recipe {recipe}: {said}"


def test_a_key_that_exists_but_is_not_in_the_recipe_is_to_be_added():
    with pytest.raises(UserError, match=r"docagent\.roles\.planner: .*\+docagent\.roles"):
        composed_recipe(RECIPE, ["docagent.roles.planner=null"])


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("+retriever=bm52", "retriever=bm52 does not exist; did you mean bm25? There are bge_"),
        ("+profile=cpuu", "profile=cpuu does not exist; did you mean cpu? There are cpu, "),
        (
            "+ablations=vrag_rl/qqqqqqqqqqqqqqqq",
            "ablations=vrag_rl/qqqqqqqqqqqqqqqq does not exist; there are vrag_rl/",
        ),
    ],
)
def test_a_choice_that_does_not_exist_is_answered_with_the_choices(override, said):
    with pytest.raises(UserError) as refused:
        composed_recipe(RECIPE, [override])
    assert str(refused.value).startswith(f"recipe {RECIPE}: {said}")
    assert "\n" not in str(refused.value)


def test_a_recipe_that_builds_on_none_is_told_how_to_begin(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(UserError, match=r"empty has no section `docagent`.*defaults: \[base"):
        composed_recipe(str(tmp_path / "empty.yaml"))
