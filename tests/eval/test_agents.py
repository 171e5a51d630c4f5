"""Recipes in which something else plays."""

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.play_check import play_config
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.errors import UserError
from docagent_rl.eval.agent import Agent
from docagent_rl.systems import get_system

VRAG, ALDEN, TEXT = "vrag_rl_qwen2_5_vl_7b", "alden_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b"


def configured(recipe, agent, *overrides):
    run = play_config(recipe, agent, overrides)
    parsed = DocAgentConfig.parse(plain(run.docagent))
    return run, parsed, get_system(parsed.system).parse_config(parsed.env)


def test_the_system_of_a_recipe_plays_as_it_is_and_searches_here():
    run, parsed, env = configured(VRAG, Agent.SYSTEM, "docagent.env.max_turns=3")
    assert (parsed.system, env.max_turns) == ("vrag_rl", 3)
    assert (parsed.retriever.backend.value, parsed.retriever.kind) == ("local", "late_interaction")
    assert (run.data.max_prompt_length, run.data.max_response_length) == (1024, 9216)


def test_a_whole_document_gets_the_context_of_the_recipe_but_one_turn():
    run, parsed, env = configured(VRAG, Agent.WHOLE_DOCUMENT)
    assert run.data.max_prompt_length == parsed.rollout.prompt_tokens == 10240 - 2048
    assert run.data.max_response_length == 2048
    assert (env.form.value, env.display.max_pixels) == ("image", 401408)
    assert configured(TEXT, Agent.WHOLE_DOCUMENT)[2].form.value == "text"
    for searchless in (parsed, configured(VRAG, Agent.QUESTION_ONLY)[1]):
        assert searchless.retriever.kind.endswith(":Unasked")
        assert searchless.retriever.index is None


@pytest.mark.parametrize(("recipe", "scope"), [(VRAG, "corpus"), (ALDEN, "document")])
def test_searches_look_where_the_recipes_do(recipe, scope):
    _, parsed, env = configured(recipe, Agent.RAG_IMAGE)
    assert env.scope.value == scope
    assert parsed.retriever.kind != "bm25"
    assert parsed.text_retriever is parsed.prompt is None


def test_react_has_the_turns_of_the_recipe():
    run, _, env = configured(ALDEN, Agent.REACT)
    own, _, own_env = configured(ALDEN, Agent.SYSTEM)
    assert env.max_turns == own_env.max_turns
    assert run.data.max_prompt_length == own.data.max_prompt_length


def test_overrides_of_the_environment_are_the_baselines_and_the_cpu_profile_keeps_its_sizes():
    changes = ["docagent.env.top_k=3", "docagent.store=/s", "docagent.prompt=mine.yaml", "+profile=cpu"]
    run, parsed, env = configured(VRAG, Agent.RAG_IMAGE, *changes)
    assert (env.top_k, env.scope.value, env.display.max_pixels) == (3, "document", 50176)
    assert (str(parsed.store), str(parsed.prompt)) == ("/s", "mine.yaml")
    assert OmegaConf.select(run, "docagent.tiny_model") == "vrag_rl"


@pytest.mark.parametrize(
    ("recipe", "agent", "overrides", "named"),
    [
        (VRAG, Agent.RAG_TEXT, ["docagent.env.alpha=1"], r"docagent\.env\.alpha"),
        (VRAG, Agent.SYSTEM, ["+data.max_promt_length=3"], "max_promt_length"),
        # fine-tuning plays nothing
        (f"sft_{VRAG}", Agent.ORACLE, [], rf"sft_{VRAG}.* {VRAG}\b"),
    ],
)
def test_what_cannot_be_played_is_named(recipe, agent, overrides, named):
    with pytest.raises(UserError, match=named):
        configured(recipe, agent, *overrides)
