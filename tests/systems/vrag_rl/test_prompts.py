from __future__ import annotations

import pytest

from docagent_rl.actions import Invalid, InvalidReason
from docagent_rl.actions.tags import TagScanner
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.prompts import load_prompt
from docagent_rl.systems.vrag_rl.actions import VragGrammar
from docagent_rl.systems.vrag_rl.env import VRAG_PROMPT

VALUES = {"question": "why?", "turns": 5, "pages": 1, "crop": True, "frame": "encoder"}
VARIANTS = ["paper", "released"]


def rendered(variant, part, **changes):
    return load_prompt(f"vrag_rl_{variant}", VRAG_PROMPT).render(part, **{**VALUES, **changes})


def instructions(variant, **changes):
    return rendered(variant, "system" if variant == "paper" else "user", **changes)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("part", ["feedback", "no_new_page", "final_turn"])
@pytest.mark.parametrize("crop", [True, False])
def test_texts_between_turns_hold_no_action(variant, part, crop):
    text = rendered(variant, part, crop=crop, reason="the turn holds no action")
    action = VragGrammar(region_alias=True).parse(text).action
    assert isinstance(action, Invalid)
    assert action.reason in (InvalidReason.NO_ACTION, InvalidReason.UNCLOSED)
    assert TagScanner(("think", "search", "bbox", "region", "answer"), hidden=()).scan(text).blocks == ()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("crop", [True, False])
def test_the_prompt_shows_the_form_of_an_answer_and_of_nothing_else(variant, crop):
    tags = ("search", "bbox", "answer")
    text = instructions(variant, crop=crop)
    complete = [block for block in TagScanner(tags, hidden=()).scan(text).blocks if not block.nested]
    assert "<answer>Lisbon</answer>" in text
    for tag in ("think", "search", "answer", *(["bbox"] if crop else [])):
        assert f"<{tag}>" in text
        assert f"</{tag}>" in text
    # "between <search> and </search>" reads as a block whose content is " and "
    assert {text[slice(*block.inner)].strip() for block in complete} <= {"and", "Lisbon"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_frames_turns_and_pages_are_told(variant):
    assert "pixels of that image" in instructions(variant)
    assert "from 0 to 1000" in instructions(variant, frame="norm1000")
    assert "at most 7" in instructions(variant, turns=7)
    assert "up to 3 of the best" in instructions(variant, pages=3)
    assert "bbox" not in instructions(variant, crop=False)
    assert "why?" in rendered(variant, "user")


async def test_feedback_names_the_reason(make_env, record, play):
    episode = await play(make_env(), record(), [AssistantTurn("<search>a")])
    (part,) = episode.results[0].observation.messages[0].parts
    assert "an action tag was opened and not closed" in part.text


def test_a_prompt_of_ones_own(make_env, services, record, tmp_path):
    from docagent_rl.systems import get_system

    path = tmp_path / "mine.yaml"
    path.write_text("user: 'Find: {{ question }}'\nfeedback: again\nno_new_page: none\nfinal_turn: last")
    env = get_system("vrag_rl").make_env({}, services, prompt=path)
    assert [message.parts[0].text for message in env.opening(record()).messages] == [
        "Find: What is the answer?"
    ]
