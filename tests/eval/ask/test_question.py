"""Every system can be asked about a document of one's own."""

import pytest

from docagent_rl.checks.play_check import play_config
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.eval.agent import Agent
from docagent_rl.eval.ask.library import Shelf
from docagent_rl.eval.ask.question import NOT_KNOWN, own_question, set_for_asking
from docagent_rl.rollout.playability import recipe_playability

RECIPES = ("alden_qwen2_5_vl_7b", "doc_v_star_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b", "unidoc_rl_qwen2_5_vl_7b",
           "vrag_rl_qwen2_5_vl_7b")  # fmt: skip


@pytest.fixture
def shelf(world):
    return Shelf(world.root, tuple(world.store.doc_ids()[:1]))


def asked(recipe, shelf, *overrides):
    run = play_config(recipe, Agent.SYSTEM, ["+retriever=bm25", *overrides])
    set_for_asking(run, shelf)
    return DocAgentConfig.parse(plain(run.docagent))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_question_without_an_answer_is_played(recipe, shelf):
    parsed = asked(recipe, shelf)
    record = own_question(shelf, " What is the revenue? ")
    assert record.question == "What is the revenue?"
    assert recipe_playability(parsed, DocumentStore(shelf.store)).problem(record, validate=True) is None
    assert parsed.judge.kind.value == "exact"
    assert parsed.store == shelf.store
    assert parsed.retriever.index == shelf.workspace / "index"


def test_the_agent_is_not_shown_what_stands_for_the_answer(shelf):
    playable = recipe_playability(asked(RECIPES[0], shelf, "+profile=cpu"), DocumentStore(shelf.store))
    assert NOT_KNOWN not in str(playable.opening(own_question(shelf, "What?"), validate=True))


def test_several_documents_need_a_system_that_searches_them(world):
    shelf = Shelf(world.root, tuple(world.store.doc_ids()[:2]))
    with pytest.raises(UserError, match=r"alden.* 2 "):
        asked("alden_qwen2_5_vl_7b", shelf)
    parsed = asked("vrag_rl_qwen2_5_vl_7b", shelf, "+profile=cpu")
    assert parsed.env["search"]["scope"] == "corpus"


def test_no_question_is_refused(shelf):
    with pytest.raises(UserError):
        own_question(shelf, "  ")
