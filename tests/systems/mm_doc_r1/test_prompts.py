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
    "question": "why?", "plan": "(1) look", "history": "Step 1\nReasoning: x", "first_page": 11,
    "last_page": 40, "step": 2, "steps": 4, "top_k": 10, "max_pages": 3, "max_entries": 2, "max_keywords": 8,
    "reason": "the step holds no action",
}  # fmt: skip
PLANNER = {"toc": "T!", "figures": "F!", "max_items": 10, "max_pages": 3, "pages": [11, 12, 40]}


def seeker(part):
    return load_prompt("mm_doc_r1_seeker", MM_DOC_PROMPT).render(part, **VALUES)


def role(name, **values):
    template = load_prompt(f"mm_doc_r1_{name}", role_prompt_spec(RoleName(name)))
    return template.render("user", question="why?", **values)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            seeker("user"),
            ["(1) look", "11 to 40", "step 2 of at most 4", "up to 10 pages", "up to 3 page ids"],
        ),
        (seeker("user"), ["1 to 2 objects", "1 to 8 keywords", "Step 1\nReasoning: x", "why?"]),
        (seeker("feedback"), ["the step holds no action", "11 to 40"]),
        (role("planner", **PLANNER), ["why?", "T!", "F!", "at most 10", "up to 3 pages", "11 to\n40"]),
        (role("reader", query="when?", pages=[3, 7]), ["why?", "when?", "3, 7"]),
        (role("answer", context="material!"), ["why?", "material!"]),
        (role("extractor", answer="because"), ["why?", "because", NOT_ANSWERABLE, FAIL_TO_ANSWER]),
        (role("extractor", answer="because"), ["Integer, Float, String or List"]),
    ],
    ids=range(8),
)
def test_everything_is_told(text, told):
    assert [part for part in told if part not in text] == []


def test_only_the_instructions_hold_actions():
    turn = MMDocGrammar().parse(seeker("user"))
    kinds = [type(action) for action in (turn.action, *turn.surplus)]
    assert kinds == [KeywordSearch, ReadEntries, Finish]
    for part in ("feedback", "no_hit"):
        turn = MMDocGrammar().parse(seeker(part))
        assert isinstance(turn.action, Invalid)
        assert turn.surplus == ()


def test_the_examples_of_an_extraction_can_be_read():
    lines = role("extractor", answer="because").splitlines()
    examples = [line for line in lines if line.startswith("Extracted answer: ")][1:]
    assert len(examples) == 6
    assert all(extracted_answer(f"{line}\nAnswer format: x") for line in examples)
