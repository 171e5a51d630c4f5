"""What the prompts of VRAG-RL, UniDoc-RL and Doc-V* tell, and that nothing in them reads as an action."""

from __future__ import annotations

import functools
import itertools

import pytest
import yaml

from docagent_rl.actions import Invalid, InvalidReason
from docagent_rl.actions.tags import TagScanner
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.systems import get_system

# of each prompt: the system, the part that holds the rules, and switches of the other parts
PROMPTS = {
    "vrag_rl_paper": ("vrag_rl", "system", ["crop"]),
    "vrag_rl_released": ("vrag_rl", "user", ["crop"]),
    "unidoc_rl": ("unidoc_rl", "user", ["select", "crop", "about_boxes"]),
    "doc_v_star_paper": ("doc_v_star", "system", ["retrieval", "fetch", "analysis"]),
}
SWITCHES = ["crop", "select", "about_boxes", "retrieval", "fetch", "analysis", "overview", "header", "memory"]
VALUES = {
    **dict.fromkeys(SWITCHES, True),
    "question": "why?", "turns": 5, "reason": "the turn holds no action", "frame": "encoder",
    "candidates": 3, "boxes": 8, "index": 0, "num_pages": 83, "first_page": 1, "last_page": 83, "k": 4,
    "fetch_pages": 3, "stride": 1, "shown": 83, "abstention": "Not answerable", "page": 5, "more": 0,
    "sheet": 1, "sheets": 3, "turn": 2, "left": 6, "summaries": [{"turn": 1, "text": "seen"}],
}  # fmt: skip
PAGES = {"vrag_rl": 1, "unidoc_rl": 1, "doc_v_star": [7, 9]}
THOUGHTS = {"think", "information", "action", "analysis", "plan", "relevant_pages", "summary"}
TAGS = (*THOUGHTS, "search", "select", "bbox", "region", "retrieval_page", "fetch_page", "answer")


@functools.cache
def template(name):
    return get_system(PROMPTS[name][0]).load_prompt({}, name)


def rendered(name, part, **changes):
    system = get_system(PROMPTS[name][0])
    values = {**VALUES, "pages": PAGES[system.name], **changes}
    known = {key: value for key, value in values.items() if key in system.prompt_spec.variables}
    return template(name).render(part, **known)


def rules(name, **changes):
    return " ".join(rendered(name, PROMPTS[name][1], **changes).split())


@pytest.mark.parametrize("name", PROMPTS)
def test_texts_behind_the_rules_hold_no_action(name):
    """Nothing that a policy could copy, nor a reader of the whole dialogue take for the policy's own."""
    owner, first, switches = PROMPTS[name]
    system = get_system(owner)
    grammar = system.make_grammar(system.parse_config({}))
    for part in system.prompt_spec.required - {first}:
        for chosen in itertools.product([True, False], repeat=len(switches)):
            text = rendered(name, part, **dict(zip(switches, chosen, strict=True)))
            action = grammar.parse(text).action
            assert isinstance(action, Invalid)
            assert action.reason is InvalidReason.NO_ACTION
            assert TagScanner(TAGS, hidden=()).scan(text).blocks == ()
            if part in {"label", "candidates", "page", "crop"}:
                assert "\n" not in text


@pytest.mark.parametrize("name", ["vrag_rl_paper", "vrag_rl_released", "unidoc_rl"])
@pytest.mark.parametrize("crop", [True, False])
@pytest.mark.parametrize("select", [True, False])
def test_the_rules_name_every_tag_and_show_an_answer_only(name, crop, select):
    text = rules(name, crop=crop, select=select)
    tags = {"think", "search", "answer", *["bbox"] * crop}
    tags |= {"information", *["select"] * select} if name == "unidoc_rl" else set()
    assert {tag for tag in TAGS if f"<{tag}>" in text} == {tag for tag in TAGS if f"</{tag}>" in text} == tags
    # "between <search> and </search>" reads as a block whose content is " and "
    blocks = TagScanner(tags - THOUGHTS, hidden=()).scan(text).blocks
    assert {text[slice(*block.inner)].strip() for block in blocks} == {"and", "Lisbon"}


def test_the_rules_of_doc_v_star_name_every_tag():
    text = rules("doc_v_star_paper")
    for tag in (THOUGHTS - {"information"}) | {"retrieval_page", "fetch_page", "answer"}:
        assert f"<{tag}>" in text
        assert f"</{tag}>" in text


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        *(
            (name, *told)
            for name in ("vrag_rl_paper", "vrag_rl_released")
            for told in [
                ({}, ["pixels"]),
                ({"frame": "norm1000"}, ["from 0 to 1000"]),
                ({"turns": 7, "pages": 3}, ["at most 7", "up to 3"]),
            ]
        ),
        ("unidoc_rl", {}, ["pixels"]),
        ("unidoc_rl", {"frame": "norm1000"}, ["from 0 to 1000"]),
        ("unidoc_rl", {"turns": 7, "candidates": 5, "boxes": 4}, ["at most 7", "at most 5", "1 to 4"]),
        ("doc_v_star_paper", {}, ["at most 5", "up to 4", "up to 3", '";"', "exactly: Not answerable"]),
    ],
)
def test_limits_and_frames_are_told(name, changes, told):
    text = rules(name, **changes)
    assert [words for words in told if words not in text] == []
    assert ("pixels" in text) == (name != "doc_v_star_paper" and changes.get("frame") != "norm1000")


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
    assert absent in rules("doc_v_star_paper")
    assert absent not in rules("doc_v_star_paper", **{switch: False})
    assert absent not in rendered("doc_v_star_paper", "reminder", **{switch: False})


def test_the_analysis_of_later_turns():
    counts = [rules("doc_v_star_paper", analysis=there).count("<analysis>") for there in (True, False)]
    assert counts == [2, 1]
    assert "analysis" not in rendered("doc_v_star_paper", "reminder", analysis=False)


@pytest.mark.parametrize(
    ("part", "changes", "ending"),
    [
        (
            "user",
            {"num_pages": 1, "first_page": 3, "last_page": 3, "turns": 1},
            "1 page, number 3. You have 1 turn.",
        ),
        ("sheet", {"first_page": 83}, "1 of 3, page 83:"),
        ("page", {}, "Page 5:"),
        ("turns_left", {"left": 1}, "turn 2; 1 turn is left after it."),
        ("no_such_page", {"more": 3}, "page 7, 9 and 3 more."),
    ],
)
def test_numbers(part, changes, ending):
    assert rendered("doc_v_star_paper", part, **changes).endswith(ending)


def test_boxes_of_a_feedback_are_in_the_frame():
    assert "from 0 to 1000" in rendered("unidoc_rl", "feedback", frame="norm1000")


async def test_text_of_the_policy_is_no_template(services, record, play):
    env = get_system("doc_v_star").make_env({}, services)
    text = "<think><analysis>a</analysis><plan>p</plan><summary>{{ 7 * 7 }} {% raw %}</summary></think>"
    episode = await play(env, record(extra={}), [AssistantTurn(text)])
    assert "Turn 1: {{ 7 * 7 }} {% raw %}" in episode.results[0].observation.messages[0].parts[0].text


@pytest.mark.parametrize("name", ["vrag_rl", "unidoc_rl", "doc_v_star"])
def test_a_prompt_of_ones_own(name, services, record, tmp_path):
    system, settings = get_system(name), {"doc_v_star": {"overview": {"enabled": False}}}
    parts = {part: part for part in system.prompt_spec.required}
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump({**parts, "system": "Rules.", "user": "Find: {{ question }}"})
    )
    env = system.make_env(settings.get(name, {}), services, prompt=tmp_path / "mine.yaml")
    said = [message.parts[0].text for message in env.opening(record(extra={})).messages]
    assert said == ["Rules.", "Find: What is the answer?"]
