from __future__ import annotations

from docagent_rl.actions.base import Finish, Invalid
from docagent_rl.base.prompts import load_prompt
from docagent_rl.envs.roles import RoleName
from docagent_rl.rewards.mmlongbench import FAIL_TO_ANSWER, extracted_answer
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.mm_doc_r1.actions import KeywordSearch, MMDocGrammar, ReadEntries
from docagent_rl.systems.mm_doc_r1.env import MMDocEnv
from docagent_rl.systems.mm_doc_r1.roles import role_prompt_spec

SEEKER = {
    "question": "why?", "plan": "(1) look", "history": "Step 1\nReasoning: x", "first_page": 911,
    "last_page": 940, "step": 92, "steps": 94, "top_k": 90, "max_pages": 93, "max_entries": 95,
    "max_keywords": 98,
}  # fmt: skip


def seeker(part):
    return load_prompt("mm_doc_r1_seeker", MMDocEnv.spec).render(part, **SEEKER, reason="reason!")


def test_only_the_instructions_hold_actions():
    assert [value for value in SEEKER.values() if str(value) not in seeker("user")] == []
    turn = MMDocGrammar().parse(seeker("user"))
    kinds = [type(action) for action in (turn.action, *turn.surplus)]
    assert kinds == [KeywordSearch, ReadEntries, Finish]
    for part in ("feedback", "no_hit"):
        turn = MMDocGrammar().parse(seeker(part))
        assert isinstance(turn.action, Invalid)
        assert turn.surplus == ()


def test_the_examples_of_an_extraction_can_be_read():
    template = load_prompt("mm_doc_r1_extractor", role_prompt_spec(RoleName.EXTRACTOR))
    text = template.render("user", question="why?", answer="because")
    assert [told for told in ("why?", "because", NOT_ANSWERABLE, FAIL_TO_ANSWER) if told not in text] == []
    examples = [line for line in text.splitlines() if line.startswith("Extracted answer: ")][1:]
    assert len(examples) == 6
    assert all(extracted_answer(f"{line}\nAnswer format: x") for line in examples)
