import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import prompt_file, prompt_names
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.commands.recipes import app, prompts_app
from docagent_rl.systems import SYSTEMS, get_system
from tests.commands.conftest import called

RECIPE = "vrag_rl_qwen2_5_vl_3b"


def recipes(*arguments, **expected):
    return called(app, *arguments, **expected).stdout


def test_recipes_are_listed_and_shown_with_their_notes():
    text = recipes()
    assert all(name in text for name in recipe_names())
    assert "ColPali" not in text
    assert len(text.splitlines()) == len(recipe_names(kind=None)) + 7
    assert "vrag_rl_qwen2_5_vl_3b        VRAG-RL, 3B, GRPO after SFT" in text
    text = recipes("show", RECIPE)
    # what the paper prints, and the recipe's value where that is another
    assert "the paper's wording" in text
    assert "; here null" in " ".join(text.split())
    assert "unidoc_rl" not in text
    for part in (
        "overall 53.5",
        "reward: 0.2 retrieval_ndcg + ",
        "docagent.retriever.model",
        "ColPali",
    ):
        assert part in text
    text = recipes("ablations", RECIPE)
    assert ("vrag_rl/no_crop" in text, "doc_v_star" in text) == (True, False)
    assert "doc_v_star/nav10" in recipes("ablations")


def test_check_tells_problems_by_recipe_and_overrides(tmp_path):
    (tmp_path / "good.yaml").write_text(f"defaults: [sft_{RECIPE}, _self_]\n")
    (tmp_path / "bad.yaml").write_text(f"defaults: [sft_{RECIPE}, _self_]\noptim: {{lr: 0}}\n")
    (tmp_path / "ablations").mkdir()
    ablation = "# x\n# y\n# for: bad\ntrainer: {save_freq: 0}\n"
    (tmp_path / "ablations" / "small.yaml").write_text(ablation)
    told = recipes("check", tmp_path / "good.yaml", tmp_path / "bad.yaml", status=1)
    for part in ("ok", "optim.lr=0", "trainer.save_freq=0", "+ablations=small"):
        assert part in told


def test_overrides_are_checked_with_the_recipe():
    assert "data.train_batch_size" in recipes("check", RECIPE, "data.train_batch_size=7", status=1)
    assert "ok" in recipes("check", RECIPE, "+profile=cpu", "trainer.save_freq=2")
    with pytest.raises(UserError, match=r"trainer\.save_freq=2"):
        recipes("check", "trainer.save_freq=2")


def test_gpus_that_a_plan_refuses_are_refused():
    seeker = "mm_doc_r1_qwen3_8b"
    small = ("check", seeker, "trainer.total_epochs=1", "--gpus-per-node")
    refused = " ".join(recipes(*small, "2", status=1).split())
    assert "does not fit on 2 GPUs" in refused
    assert "it fits on 4 GPUs of this memory" in refused
    assert "ok" in recipes(*small, "2", "--gpu-memory", "h200")
    # roles at addresses elsewhere need no GPU here, and those without one are not known yet
    assert "ok" in recipes(*small, "4")
    here = [
        f"docagent.roles.{role}.base_url=http://127.0.0.1:800{port}/v1"
        for role, port in {"planner": 1, "answer": 1, "reader": 2, "extractor": 3}.items()
    ]
    assert "it fits on 7 GPUs" in " ".join(
        recipes(*small[:3], *here, *small[3:], "4", status=1).split()
    )
    assert "does not fit on 2 GPUs" in " ".join(
        recipes("check", seeker, "trainer.n_gpus_per_node=2", status=1).split()
    )


def test_a_plan_is_printed_in_each_form_or_refused():
    arguments = ("plan", "mm_doc_r1_qwen3_8b", "--gpus")
    assert "| extractor | Qwen/Qwen2.5-72B-Instruct | 0: 4-7 |" in recipes(*arguments, "8")
    assert recipes(*arguments, "8", "--format", "slurm").startswith("#!/usr/bin/env bash\n")
    assert "services:\n  planner_answer:\n" in recipes(*arguments, "8", "--format", "compose")
    with pytest.raises(UserError, match="it fits on 7 GPUs of this memory"):
        recipes(*arguments, "4")
    with pytest.raises(UserError, match="--gpus 9 cannot be shared equally by --nodes 2"):
        recipes(*arguments, "9", "--nodes", "2")
    with pytest.raises(UserError, match="the sizes of some/body are not known"):
        recipes(*arguments, "8", "actor_rollout_ref.model.path=some/body")


def test_budgets_are_of_a_card_by_name_or_size():
    card, size = (recipes("budget", RECIPE, "--gpu-memory", each) for each in ("h100", "80GB"))
    assert "| **GPU, update** |" in card
    assert card == size != recipes("budget", RECIPE, "--gpu-memory", "48")
    for command in (["budget", RECIPE], ["fit"]):
        with pytest.raises(UserError, match=r"--gpu-memory h1000: .*h100"):
            recipes(*command, "--gpu-memory", "h1000")


def test_a_recipe_that_is_none_is_named():
    for command in (["check"], ["show"], ["ablations"]):
        with pytest.raises(UserError, match="mine"):
            recipes(*command, "mine")


def prompts(*arguments):
    return called(prompts_app, *arguments).stdout


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_shown_is_a_file_that_fits_the_system(system, tmp_path):
    text = prompts("show", system)
    mine = tmp_path / "mine.yaml"
    mine.write_text(text, encoding="utf-8")
    found = get_system(system)
    assert text == prompt_file(found.default_prompt(found.parse_config({}))).read_text(
        encoding="utf-8"
    )
    told = prompts("check", mine, "--system", system)
    assert all(part in told for part in found.prompt_spec.required)


def test_a_variant_and_a_recipe_choose_among_those_of_a_system(tmp_path):
    assert prompts("show", "vrag_rl") == prompts("show", "vrag_rl_paper")
    assert prompts("list").split() == prompt_names()
    hybrid = tmp_path / "hybrid.yaml"
    hybrid.write_text(prompts("show", "alden_hybrid"))
    check = ("check", hybrid, "--system", "alden", "--variant", "paper")
    assert "alden" in prompts(*check, "--recipe", "alden_hybrid_qwen2_5_vl_7b")
    with pytest.raises(UserError, match="alden"):
        prompts(*check, "--recipe", "vrag_rl_qwen2_5_vl_7b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "lacking.yaml", "--system", "vrag_rl"), r"lacking\.yaml: .*'feedback'"),
        (("check", "mine.txt", "--system", "vrag_rl"), r"\.yaml"),
        (("show", "nobody"), "'nobody'"),
    ],
)
def test_what_does_not_fit_is_one_error(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lacking.yaml").write_text("user: 'Q: {{ question }}'")
    with pytest.raises(UserError, match=message):
        prompts(*arguments)
