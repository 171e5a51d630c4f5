"""The rules of a turn: those that all grammars of tags share are tried here, with VRAG-RL's tags."""

from __future__ import annotations

import pytest

from docagent_rl.actions.base import Answer, Crop, Invalid, InvalidReason, StopCause
from docagent_rl.systems.vrag_rl.env import VragGrammar

GRAMMAR = VragGrammar()


def test_a_search_with_spans():
    text = "<think>look</think>\n<search>  annual  report </search> trailing"
    turn = GRAMMAR.parse(text)
    assert turn.action.query == "annual  report"
    assert text[slice(*turn.action.block)] == "<search>  annual  report </search>"
    assert text[slice(*turn.action.argument)] == "  annual  report "
    assert [text[slice(*span)] for span in turn.thoughts] == ["look"]
    assert turn.surplus == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", InvalidReason.NO_ACTION),
        ("<think>only</think>", InvalidReason.NO_ACTION),
        ("<Search>a</Search>", InvalidReason.NO_ACTION),
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
    action = GRAMMAR.parse(text).action
    assert isinstance(action, Invalid)
    assert action.reason is reason


def test_actions_inside_thoughts_do_nothing_and_answers_may_be_blank():
    assert GRAMMAR.parse("<answer>\n12 %\nin 2020 </answer>").action.text == "12 %\nin 2020"
    assert GRAMMAR.parse("<think><answer>no</answer></think><answer> </answer>").action.text == ""
    turn = GRAMMAR.parse("<think><search>no</search><answer>no</answer></think><bbox>[0,0,9,9]</bbox>")
    assert isinstance(turn.action, Crop)
    assert turn.action.boxes == ((0, 0, 9, 9),)
    assert turn.surplus == ()


def test_the_first_closed_block_wins_and_later_ones_are_surplus():
    turn = GRAMMAR.parse("<bbox> <search>a</search> <answer>b</answer> <search></search>")
    assert turn.action.query == "a"
    assert [type(action) for action in turn.surplus] == [Answer, Invalid]
    nested = GRAMMAR.parse("<search><bbox></search><answer>b</answer>")
    assert nested.action.reason is InvalidReason.NESTED
    assert nested.surplus[0].text == "b"


def test_how_sampling_ended():
    assert GRAMMAR.parse("<search>a", StopCause.TRUNCATED).action.reason is InvalidReason.TRUNCATED
    assert GRAMMAR.parse("<search>a</search> and the", StopCause.TRUNCATED).action.query == "a"
    whole = GRAMMAR.parse("<search>a</search>", StopCause.CONTROL_TOKEN)
    assert whole.action.reason is InvalidReason.CONTROL_TOKEN


def test_region_alias():
    grammar = VragGrammar(region_alias=True)
    for tag in ("region", "bbox"):
        assert grammar.parse(f"<{tag}>[1,2,3,4]</{tag}>").action.boxes == ((1, 2, 3, 4),)
    assert grammar.parse("<region>[1,2,3,4]</bbox>").action.reason is InvalidReason.UNCLOSED


def test_without_crop_its_tags_mean_nothing():
    grammar = VragGrammar(crop=False, region_alias=True)
    assert grammar.parse("<bbox>[1,2,3,4]</bbox>").action.reason is InvalidReason.NO_ACTION
    assert grammar.parse("<search>the <bbox> tag</search>").action.query == "the <bbox> tag"
