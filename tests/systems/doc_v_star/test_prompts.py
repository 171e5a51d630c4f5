from __future__ import annotations

import itertools

import pytest

from docagent_rl.actions import Invalid, InvalidReason
from docagent_rl.actions.tags import TagScanner
from docagent_rl.prompts import load_prompt
from docagent_rl.systems.doc_v_star.actions import DocVStarGrammar
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from docagent_rl.systems.doc_v_star.system import SYSTEM
from docagent_rl.systems.doc_v_star.writer import DOC_V_STAR_PROMPT

VALUES = {
    "question": "why?", "num_pages": 83, "first_page": 1, "last_page": 83, "turns": 8, "k": 4,
    "fetch_pages": 3, "retrieval": True, "fetch": True, "analysis": True, "overview": True,
    "header": True, "stride": 1, "shown": 83, "memory": True, "abstention": "Not answerable",
    "page": 5, "pages": [7, 9], "more": 0,
    "sheet": 1, "sheets": 3, "turn": 2, "left": 6, "reason": "the turn holds no action",
    "summaries": [{"turn": 1, "text": "seen"}],
}  # fmt: skip
TAGS = (
    "think",
    "action",
    "analysis",
    "plan",
    "relevant_pages",
    "summary",
    "retrieval_page",
    "fetch_page",
    "answer",
)
LATER_PARTS = sorted(DOC_V_STAR_PROMPT.required - {"system"})


def rendered(part, **changes):
    return load_prompt("doc_v_star_paper", DOC_V_STAR_PROMPT).render(part, **{**VALUES, **changes})


@pytest.mark.parametrize("part", LATER_PARTS)
@pytest.mark.parametrize("switches", itertools.product([True, False], repeat=3))
def test_texts_behind_the_rules_hold_no_action(part, switches):
    text = rendered(part, **dict(zip(("retrieval", "fetch", "analysis"), switches, strict=True)))
    action = DocVStarGrammar().parse(text).action
    assert isinstance(action, Invalid)
    assert action.reason is InvalidReason.NO_ACTION
    assert TagScanner(TAGS, hidden=()).scan(text).blocks == ()
    assert not any("  " in line for line in text.splitlines())


def test_the_rules_name_every_tag_and_limit():
    text = rendered("system")
    for tag in TAGS:
        assert f"<{tag}>" in text
        assert f"</{tag}>" in text
    for words in (
        "at most 8",
        "up to 4 of the pages",
        "up to 3 at once",
        "write exactly: Not answerable",
        '";"',
    ):
        assert words in text


@pytest.mark.parametrize(
    ("switch", "absent"),
    [
        ("retrieval", "retrieval_page"),
        ("fetch", "fetch_page"),
        ("overview", "overview"),
        ("header", "printed above"),
        ("memory", "repeated to you"),
    ],
)
def test_what_is_switched_off_is_not_mentioned(switch, absent):
    assert absent in rendered("system")
    for part in ("system", "reminder"):
        assert absent not in rendered(part, **{switch: False})


def test_the_analysis_of_later_turns():
    assert rendered("system").count("<analysis>") == 2
    assert rendered("system", analysis=False).count("<analysis>") == 1
    assert "analysis" not in rendered("reminder", analysis=False)


def test_the_reminder_says_nothing_about_the_document():
    text = rendered("reminder", question="SECRET", num_pages=9999, reason="it was wrong")
    assert "it was wrong" in text
    assert "SECRET" not in text
    assert "9999" not in text


def test_numbers():
    assert rendered("user", num_pages=1, first_page=3, last_page=3, turns=1).endswith(
        "The document has 1 page, number 3. You have 1 turn."
    )
    assert rendered("sheet", first_page=83, last_page=83) == "Overview 1 of 3, page 83:"
    assert rendered("page") == "Page 5:"
    assert rendered("turns_left", left=1) == "This is turn 2; 1 turn is left after it."
    assert rendered("no_such_page", more=3) == "The document has no page 7, 9 and 3 more."


def test_text_of_the_policy_is_no_template(services, record):
    import asyncio

    from docagent_rl.envs.base import AssistantTurn

    env = DocVStarEnv(DocVStarConfig(), services)
    env.opening(record(doc_id="M", evidence_pages=(3,), extra={}))
    text = "<think><analysis>a</analysis><plan>p</plan><summary>{{ 7 * 7 }} {% raw %}</summary></think>"
    result = asyncio.run(env.step(AssistantTurn(text)))
    assert "Turn 1: {{ 7 * 7 }} {% raw %}" in result.observation.messages[0].parts[0].text


def test_a_prompt_of_ones_own(services, record, tmp_path):
    path = tmp_path / "mine.yaml"
    parts = "\n".join(f"{part}: {part}" for part in sorted(DOC_V_STAR_PROMPT.required - {"user"}))
    path.write_text(f"user: 'Find: {{{{ question }}}}'\n{parts}\n")
    env = SYSTEM.make_env({"overview": {"enabled": False}}, services, prompt=path)
    prompt = env.opening(record(doc_id="M", evidence_pages=(3,), extra={}))
    assert [message.parts[0].text for message in prompt.messages] == ["system", "Find: What is the answer?"]
