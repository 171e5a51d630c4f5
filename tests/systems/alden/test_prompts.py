from __future__ import annotations

import re

import pytest

from docagent_rl.prompts import load_prompt
from docagent_rl.systems.alden.env import ALDEN_PROMPT

NAMES = ["alden_visual", "alden_hybrid"]
VALUES = {
    "question": "why?", "num_pages": 9, "turns": 6, "fetch": True, "ordinal": False, "pages_per_search": 1,
    "refusal": "The problem is not answerable", "page": 4,
}  # fmt: skip


def rendered(name, part, **changes):
    return load_prompt(name, ALDEN_PROMPT).render(part, **{**VALUES, **changes})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ordinal", [True, False])
def test_notices_hold_no_action(name, ordinal):
    texts = [rendered(name, part, ordinal=ordinal) for part in ALDEN_PROMPT.required - {"system", "user"}]
    assert all(texts)
    # without a tag there is no action in any grammar
    assert not any("<" in text for text in texts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fetch", [True, False])
def test_the_instructions_name_every_tag_and_show_no_whole_action(name, fetch):
    text = rendered(name, "system", fetch=fetch)
    for tag in ("think", "search", "answer", "result", *(["fetch"] if fetch else [])):
        assert f"<{tag}>" in text
        assert f"</{tag}>" in text
    assert ("fetch" in text.lower()) is fetch
    # "between <search> and </search>" reads as a pair around " and "
    assert set(re.findall(r"<(?:search|fetch|answer)>(.*?)</", text)) == {" and "}
    assert VALUES["refusal"] in text


@pytest.mark.parametrize("name", NAMES)
def test_what_the_instructions_tell(name):
    assert "5 calls" in rendered(name, "system", turns=6)
    assert " 7 " in rendered(name, "system", pages_per_search=7)
    assert "-th" in rendered(name, "system", ordinal=True)
    assert "-th" not in rendered(name, "system", ordinal=False)
    assert "why?" in rendered(name, "user")
    assert "1 to 9" in rendered(name, "user", num_pages=9)
