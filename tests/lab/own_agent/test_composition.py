"""The chain's commands are composed by Hydra and pass the checks before a run."""

import pytest

from docagent_rl.checks.recipe_check import check_overridden, composed_recipe
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.lab.own_agent.own_stages import own_chain
from docagent_rl.lab.own_agent.recipe import recipe_facts, sft_longest, sft_model, tuned_recipes
from tests.lab.own_agent.test_own_stages import JUDGE, ORACLE, TEACHER
from tests.lab.stages.commands import overrides_of, words_of

pytestmark = pytest.mark.slow
CHOICES = [
    {},
    {"teacher": ORACLE, "steps": 2, "retriever": "hybrid", "overrides": ["+lora=language"]},
    {"recipe": "alden_hybrid_qwen2_5_vl_7b", "retriever": "minilm"},
    {"profile": None, "steps": 2},
    {"profile": None, "gpus": 1, "overrides": ["+lora=gpu_80"]},
    {"profile": None, "gpus": 5, "retriever": "colqwen2", "teacher": TEACHER, "judge": JUDGE},
    {"profile": None, "recipe": "doc_v_star_qwen3_vl_4b", "retriever": "bge_m3"},
]


@pytest.mark.parametrize("values", CHOICES)
def test_overrides_compose_and_pass_the_checks(agent, tmp_path, monkeypatch, values):
    monkeypatch.setenv("KEY", "a key")
    for stage in own_chain(agent(**values), "go on").stages:
        for words in words_of(stage.command, tmp_path):
            if (found := overrides_of(words)) is not None:
                finding = check_overridden(*found)
                assert finding.problem is None, finding


@pytest.mark.parametrize("recipe", recipe_names())
def test_what_is_read_without_hydra_is_what_it_composes(recipe):
    run = composed_recipe(recipe)
    facts = recipe_facts(recipe)
    assert facts.system == run.docagent.system
    assert facts.model == run.actor_rollout_ref.model.path
    assert facts.tensor_parallel == run.actor_rollout_ref.rollout.tensor_model_parallel_size
    assert facts.asks_judge == (run.docagent.judge.kind == "openai")
    assert (facts.text_retriever is None) == (run.docagent.text_retriever is None)
    assert run.trainer.experiment_name == recipe
    if recipe in tuned_recipes():
        tuned = composed_recipe(facts.sft)
        assert sft_model(facts.sft) == tuned.model.path
        assert sft_longest(facts.sft) == tuned.data.max_length
        assert tuned.trainer.experiment_name == facts.sft
