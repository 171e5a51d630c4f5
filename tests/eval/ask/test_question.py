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

ALDEN, VRAG = "alden_qwen2_5_vl_7b", "vrag_rl_qwen2_5_vl_7b"
RECIPES = (ALDEN, VRAG, "doc_v_star_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b", "unidoc_rl_qwen2_5_vl_7b")


def shelf_of(world, number):
    return Shelf(world.root, tuple(world.store.doc_ids()[:number]))


def asked(recipe, shelf):
    run = play_config(recipe, Agent.SYSTEM, ["+retriever=bm25", "+profile=cpu"])
    set_for_asking(run, shelf)
    return DocAgentConfig.parse(plain(run.docagent))


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_question_without_an_answer_is_played_and_what_stands_for_it_is_not_shown(recipe, world):
    shelf = shelf_of(world, 1)
    parsed, record = asked(recipe, shelf), own_question(shelf, " What is the revenue? ")
    assert record.question == "What is the revenue?"
    playable = recipe_playability(parsed, DocumentStore(shelf.store))
    assert playable.problem(record, validate=True) is None
    assert NOT_KNOWN not in str(playable.opening(record, validate=True))
    assert parsed.judge.kind.value == "exact"
    assert (parsed.store, parsed.retriever.index) == (shelf.store, shelf.workspace / "index")


def test_several_documents_need_a_system_that_searches_them(world):
    with pytest.raises(UserError, match=r"alden.* 2 "):
        asked(ALDEN, shelf_of(world, 2))
    assert asked(VRAG, shelf_of(world, 2)).env["search"]["scope"] == "corpus"


def test_no_question_is_refused(world):
    with pytest.raises(UserError):
        own_question(shelf_of(world, 1), "  ")
