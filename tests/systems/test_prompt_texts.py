"""The prompts of all systems but MM-Doc-R1: their content, and that nothing in them parses as an
action.
"""

import functools
import itertools

import pytest
import yaml

from docagent_rl.actions.base import Invalid, InvalidReason
from docagent_rl.actions.grammar import TagScanner
from docagent_rl.envs.base import AssistantTurn
from docagent_rl.systems import get_system

# of each prompt: the system, the part that holds the rules, and switches of the other parts
PROMPTS = {
    "vrag_rl_paper": ("vrag_rl", "system", ["crop"]),
    "vrag_rl_released": ("vrag_rl", "user", ["crop"]),
    "unidoc_rl": ("unidoc_rl", "user", ["select", "crop", "about_boxes"]),
    "doc_v_star_paper": ("doc_v_star", "system", ["retrieval", "fetch", "analysis"]),
    "alden_visual": ("alden", "system", ["fetch", "ordinal"]),
    "alden_hybrid": ("alden", "system", ["fetch", "ordinal"]),
}
SWITCHES = [
    "crop",
    "select",
    "about_boxes",
    "retrieval",
    "fetch",
    "analysis",
    "overview",
    "header",
    "memory",
]
VALUES = {
    **dict.fromkeys(SWITCHES, True),
    "question": "why?", "turns": 5, "reason": "the turn holds no action", "frame": "encoder",
    "candidates": 3, "boxes": 8, "index": 0, "num_pages": 83, "first_page": 1, "last_page": 83,
    "k": 4,
    "fetch_pages": 3, "stride": 1, "shown": 83, "abstention": "Not answerable", "page": 5,
    "more": 0,
    "refusal": "The problem is not answerable", "pages_per_search": 1, "ordinal": False,
    "sheet": 1, "sheets": 3, "turn": 2, "left": 6, "summaries": [{"turn": 1, "text": "seen"}],
}  # fmt: skip
THOUGHTS = {"think", "information", "action", "analysis", "plan", "relevant_pages", "summary"}
TAGS = (
    *THOUGHTS,
    "search",
    "select",
    "bbox",
    "region",
    "retrieval_page",
    "fetch_page",
    "fetch",
    "answer",
)


@functools.cache
def template(name):
    return get_system(PROMPTS[name][0]).load_prompt({}, name)


def rendered(name, part, **changes):
    values = {**VALUES, "pages": [7, 9] if name == "doc_v_star_paper" else 1, **changes}
    known = get_system(PROMPTS[name][0]).prompt_spec.variables & values.keys()
    return template(name).render(part, **{key: values[key] for key in known})


def rules(name, **changes):
    return " ".join(rendered(name, PROMPTS[name][1], **changes).split())


@pytest.mark.parametrize("name", PROMPTS)
def test_texts_behind_the_rules_hold_no_action(name):
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


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize("there", [True, False])
def test_the_rules_name_every_tag_and_show_an_answer_only(name, there):
    text = rules(name, crop=there, select=there, retrieval=there, fetch=there)
    tags = {"think", "search", "answer", *["fetch" if "alden" in name else "bbox"] * there}
    if name == "unidoc_rl":
        tags |= {"information", *["select"] * there}
    if name == "doc_v_star_paper":
        tags = (THOUGHTS - {"information"}) | {"answer", *["retrieval_page", "fetch_page"] * there}
    assert (
        {tag for tag in TAGS if f"<{tag}>" in text}
        == {tag for tag in TAGS if f"</{tag}>" in text}
        == tags
    )
    if name != "doc_v_star_paper":
        # "between <search> and </search>" reads as a block whose content is " and "
        blocks = TagScanner(tags - THOUGHTS, hidden=()).scan(text).blocks
        shown = {"and"} if "alden" in name else {"and", "Lisbon"}
        assert {text[slice(*block.inner)].strip() for block in blocks} == shown


async def test_text_of_the_policy_is_no_template(services, make_sample, play):
    env = get_system("doc_v_star").make_env({}, services)
    text = (
        "<think><analysis>a</analysis><plan>p</plan><summary>{{ 7 * 7 }} {% raw "
        "%}</summary></think>"
    )
    state = await play(env, make_sample(extra={}), [AssistantTurn(text)])
    assert "Turn 1: {{ 7 * 7 }} {% raw %}" in state.results[0].observation.messages[0].parts[0].text


@pytest.mark.parametrize("name", ["alden", "mm_doc_r1", "vrag_rl", "unidoc_rl", "doc_v_star"])
def test_a_prompt_of_ones_own(name, services, make_sample, tmp_path):
    system, settings = get_system(name), {"doc_v_star": {"overview": {"enabled": False}}}
    parts = {part: part for part in system.prompt_spec.required}
    mine = {**parts, "system": "Rules.", "user": "Find: {{ question }}"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(mine))
    env = system.make_env(settings.get(name, {}), services, prompt=tmp_path / "mine.yaml")
    said = [message.parts[0].text for message in env.opening(make_sample(extra={})).messages]
    assert said == ["Rules.", "Find: What is the answer?"]
