from __future__ import annotations

import pytest

from docagent_rl.actions import Finish, Invalid
from docagent_rl.envs.roles import RoleName
from docagent_rl.prompts import load_prompt
from docagent_rl.rewards.mmlongbench import FAIL_TO_ANSWER, extracted_answer
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.mm_doc_r1.actions import KeywordSearch, MMDocGrammar, ReadEntries
from docagent_rl.systems.mm_doc_r1.env import MM_DOC_PROMPT
from docagent_rl.systems.mm_doc_r1.roles import role_prompt_spec

VALUES = {
    "question": "why?", "plan": "(1) look", "history": "",
    "first_page": 11, "last_page": 40, "step": 2, "steps": 4,
    "top_k": 10, "max_pages": 3, "max_entries": 2, "max_keywords": 8, "reason": "the step holds no action",
}  # fmt: skip
GRAMMAR = MMDocGrammar()


def seeker(part, **changes):
    return load_prompt("mm_doc_r1_seeker", MM_DOC_PROMPT).render(part, **{**VALUES, **changes})


def role(name, **values):
    return load_prompt(f"mm_doc_r1_{name}", role_prompt_spec(RoleName(name))).render("user", **values)


def test_the_seeker_is_told_everything():
    text = seeker("user")
    for part in ("why?", "(1) look", "11 to 40", "step 2 of at most 4", "up to 10 pages", "up to 3 page ids",
                 "1 to 2 objects", "1 to 8 keywords", "Steps so far:\nnone",
                 "Only pages that were read count"):  # fmt: skip
        assert part in text
    assert "Step 1\nReasoning" in seeker("user", history="Step 1\nReasoning: x")


def test_the_examples_of_the_seeker_are_valid_actions():
    turn = GRAMMAR.parse(seeker("user"))
    kinds = [type(action) for action in (turn.action, *turn.surplus)]
    assert kinds == [KeywordSearch, ReadEntries, Finish]


@pytest.mark.parametrize("part", ["feedback", "no_hit"])
def test_texts_between_steps_hold_no_action(part):
    turn = GRAMMAR.parse(seeker(part))
    assert isinstance(turn.action, Invalid)
    assert turn.surplus == ()


def test_the_feedback_names_reason_and_pages():
    text = seeker("feedback")
    assert "the step holds no action" in text
    assert "11 to 40" in text


def test_the_planner():
    text = role(
        "planner", question="why?", toc="T", figures="F", max_items=10, max_pages=3, pages=[11, 12, 40]
    )
    for part in ("why?", "T", "F", "at most 10", "up to 3 pages", "11 to\n40", "Do not answer"):
        assert part in text


def test_the_reader():
    text = role("reader", question="why?", query="when?", pages=[3, 7])
    for part in ("why?", "when?", "3, 7", "Visual elements", "Key findings", "do not answer"):
        assert part in text


def test_the_answer_agent():
    assert "material!" in role("answer", question="why?", context="material!")
    assert "Nothing was found" in role("answer", question="why?", context="")


def test_the_extractor():
    text = role("extractor", question="why?", answer="because")
    for part in ("why?", "because", NOT_ANSWERABLE, FAIL_TO_ANSWER, "Integer, Float, String or List"):
        assert part in text
    examples = [line for line in text.splitlines() if line.startswith("Extracted answer: ")][1:]
    assert len(examples) == 6
    assert all(extracted_answer(f"{line}\nAnswer format: x") for line in examples)
