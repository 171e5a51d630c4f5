from __future__ import annotations

import pytest

from docagent_rl.actions import Invalid, InvalidReason
from docagent_rl.actions.tags import TagScanner
from docagent_rl.prompts import load_prompt
from docagent_rl.systems.unidoc_rl.actions import UniDocGrammar
from docagent_rl.systems.unidoc_rl.env import UNIDOC_PROMPT
from docagent_rl.systems.unidoc_rl.system import SYSTEM

TAGS = ("think", "information", "search", "select", "bbox", "answer")
VALUES = {
    "question": "why?",
    "turns": 10,
    "select": True,
    "crop": True,
    "candidates": 3,
    "boxes": 8,
    "frame": "displayed",
}


def rendered(part, **changes):
    return load_prompt("unidoc_rl", UNIDOC_PROMPT).render(part, **{**VALUES, **changes})


@pytest.mark.parametrize("part", ["feedback", "candidates", "label", "page", "crop", "no_new_page"])
@pytest.mark.parametrize("select", [True, False])
@pytest.mark.parametrize("crop", [True, False])
@pytest.mark.parametrize("about_boxes", [True, False])
def test_texts_between_turns_hold_no_tag(part, select, crop, about_boxes):
    """Nothing that a policy could copy, nor a reader of the whole dialogue take for the policy's own."""
    text = rendered(
        part, select=select, crop=crop, about_boxes=about_boxes, index=0, reason="the turn holds no action"
    )
    action = UniDocGrammar().parse(text).action
    assert isinstance(action, Invalid)
    assert action.reason is InvalidReason.NO_ACTION
    assert TagScanner(TAGS, hidden=()).scan(text).blocks == ()
    if part in ("label", "candidates", "page", "crop"):
        assert "\n" not in text


@pytest.mark.parametrize("select", [True, False])
@pytest.mark.parametrize("crop", [True, False])
def test_the_prompt_names_every_tag_and_shows_an_answer_only(select, crop):
    text = rendered("user", select=select, crop=crop)
    for tag in TAGS:
        there = {"select": select, "bbox": crop}.get(tag, True)
        assert (f"<{tag}>" in text) == (f"</{tag}>" in text) == there
    blocks = TagScanner(TAGS, hidden=()).scan(text).blocks
    # "between <search> and </search>" reads as a block whose content is " and "
    assert {text[slice(*block.inner)].strip() for block in blocks} == {"and", "Lisbon"}
    assert text.endswith("Question: why?")


def test_the_limits_are_told():
    text = rendered("user", turns=7, candidates=5, boxes=4)
    for words in ("at most 7", "at most 5, numbered from 0", "1 to 4", "pixels of the image shown last"):
        assert words in " ".join(text.split())
    norm = rendered("user", frame="norm1000")
    assert "from 0 to 1000" in norm
    assert "pixels" not in norm
    assert "from 0 to 1000" in rendered("feedback", frame="norm1000", reason="a", about_boxes=True)


def test_a_prompt_of_ones_own(services, record, tmp_path):
    path = tmp_path / "mine.yaml"
    parts = ("feedback", "candidates", "label", "page", "crop", "no_new_page")
    path.write_text(
        "system: 'Find.'\nuser: '{{ question }}'\n" + "".join(f"{part}: {part}\n" for part in parts)
    )
    env = SYSTEM.make_env({}, services, prompt=path)
    said = [message.parts[0].text for message in env.opening(record()).messages]
    assert said == ["Find.", "What is the answer?"]
