from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions import Answer, Crop, Invalid, InvalidReason, ParsedTurn, Search, StopCause
from docagent_rl.systems.vrag_rl.actions import VragGrammar

GRAMMAR = VragGrammar()


def parse(text, stop=StopCause.END_OF_TURN):
    return GRAMMAR.parse(text, stop)


def test_search_with_spans():
    text = "<think>look</think>\n<search>  annual  report </search> trailing"
    turn = parse(text)
    assert isinstance(turn.action, Search)
    assert turn.action.query == "annual  report"
    assert text[slice(*turn.action.block)] == "<search>  annual  report </search>"
    assert text[slice(*turn.action.argument)] == "  annual  report "
    assert [text[slice(*span)] for span in turn.thoughts] == ["look"]
    assert turn.surplus == ()


def test_box_and_answer():
    assert parse("<bbox>[318, 96, 602, 371]</bbox>").action.boxes == ((318, 96, 602, 371),)
    answer = parse("<answer>\n12 %\nin 2020 </answer>").action
    assert isinstance(answer, Answer)
    assert answer.text == "12 %\nin 2020"
    assert parse("<answer> </answer>").action.text == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", InvalidReason.NO_ACTION),
        ("<think>only</think>", InvalidReason.NO_ACTION),
        ("<Search>a</Search>", InvalidReason.NO_ACTION),
        ("<region>[1,2,3,4]</region>", InvalidReason.NO_ACTION),
        ("</search>", InvalidReason.NO_ACTION),
        ("<think><search>a</search>", InvalidReason.NO_ACTION),
        ("<search>a", InvalidReason.UNCLOSED),
        ("<search>a</answer>", InvalidReason.UNCLOSED),
        ("<search>a<think>b</search>", InvalidReason.UNCLOSED),
        ("<search>a<search>b</search>", InvalidReason.NESTED),
        ("<answer></search></answer>", InvalidReason.NESTED),
        ("<search> \n</search>", InvalidReason.BAD_ARGUMENT),
        ("<search><think>a</think></search>", InvalidReason.BAD_ARGUMENT),
        ("<bbox>[1, 2, 3]</bbox>", InvalidReason.BAD_ARGUMENT),
    ],
)
def test_invalid_turns(text, reason):
    action = parse(text).action
    assert isinstance(action, Invalid)
    assert action.reason is reason


def test_actions_inside_thoughts_do_nothing():
    turn = parse("<think><search>no</search><answer>no</answer></think><bbox>[0,0,9,9]</bbox>")
    assert isinstance(turn.action, Crop)
    assert turn.surplus == ()


def test_first_closed_block_wins_and_later_ones_are_surplus():
    turn = parse("<bbox> <search>a</search> <answer>b</answer> <search></search>")
    assert turn.action.query == "a"
    assert [type(action) for action in turn.surplus] == [Answer, Invalid]


def test_a_nested_first_block_decides_the_turn():
    turn = parse("<search><bbox></search><answer>b</answer>")
    assert turn.action.reason is InvalidReason.NESTED
    assert turn.surplus[0].text == "b"


def test_truncated():
    assert parse("<search>a", StopCause.TRUNCATED).action.reason is InvalidReason.TRUNCATED
    assert parse("<search>a</search> and the", StopCause.TRUNCATED).action.query == "a"


def test_control_token_voids_the_turn():
    turn = parse("<search>a</search>", StopCause.CONTROL_TOKEN)
    assert turn.action.reason is InvalidReason.CONTROL_TOKEN


def test_region_alias():
    grammar = VragGrammar(region_alias=True)
    assert grammar.parse("<region>[1,2,3,4]</region>").action.boxes == ((1, 2, 3, 4),)
    assert grammar.parse("<bbox>[1,2,3,4]</bbox>").action.boxes == ((1, 2, 3, 4),)
    assert grammar.parse("<region>[1,2,3,4]</bbox>").action.reason is InvalidReason.UNCLOSED


def test_without_crop_its_tags_mean_nothing():
    grammar = VragGrammar(crop=False, region_alias=True)
    assert grammar.tags == ("search", "answer")
    assert grammar.parse("<bbox>[1,2,3,4]</bbox>").action.reason is InvalidReason.NO_ACTION
    assert grammar.parse("<search>the <bbox> tag</search>").action.query == "the <bbox> tag"


def check(text: str, turn: ParsedTurn) -> None:
    for action in (turn.action, *turn.surplus):
        if not isinstance(action, Invalid):
            assert text[slice(*action.block)].startswith("<")
            start, end = action.block
            assert start < action.argument[0] <= action.argument[1] < end <= len(text)
        # whatever the policy wrote, feedback made of it holds no action
        elif action.detail:
            assert not parse(f"feedback: {action.detail}").action.block


@given(st.text(max_size=200), st.sampled_from(StopCause))
def test_any_text_parses(text, stop):
    check(text, GRAMMAR.parse(text, stop))


def test_ten_thousand_adversarial_turns():
    rng = random.Random(0)
    tags = [f"<{slash}{tag}>" for tag in ("search", "bbox", "answer", "think") for slash in ("", "/")]
    arguments = [
        "a",
        " ",
        "[1,2,3,4]",
        "[9,9,1,1]",
        "[NaN,1,2,3]",
        "[1e999,0,0,0]",
        "9" * 50,
        "[[[[",
        "\ud800",
    ]
    arguments += ["<", ">", "</", "<|im_end|>", "<|image_pad|>", "{{ question }}", "\u202e", "]]>", "\x00"]
    kinds = set()
    for number in range(10_000):
        text = "".join(rng.choice(rng.choice((tags, arguments))) for _ in range(rng.randrange(14)))
        turn = GRAMMAR.parse(text, rng.choice(list(StopCause)) if number % 3 == 0 else StopCause.END_OF_TURN)
        check(text, turn)
        kinds.add(turn.action.reason if isinstance(turn.action, Invalid) else type(turn.action))
    # every branch was taken; later actions of a turn are surplus here, not a fault
    assert kinds == {Search, Crop, Answer, *(set(InvalidReason) - {InvalidReason.SEVERAL})}


@pytest.mark.parametrize(
    "text",
    [
        "<search>" * 125_000,
        "<search>a</search>" * 55_000,
        "<bbox>" + "[" * 1_000_000 + "</bbox>",
        "<bbox>[" + "9" * 1_000_000 + ",1,1,1]</bbox>",
        "<think>" + "<search>" * 120_000 + "</think>",
        "</think>" * 125_000,
    ],
    ids=lambda text: text[:20],
)
def test_a_megabyte_parses(text):
    assert isinstance(GRAMMAR.parse(text), ParsedTurn)
