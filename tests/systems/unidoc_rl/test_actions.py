import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.actions.base import Invalid, InvalidReason, StopCause
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import UniDocEnv


def grammar_of(**settings):
    return UniDocEnv.make_grammar(UniDocConfig.for_variant(**settings))


GRAMMAR = grammar_of()
FORGIVING = grammar_of(selection={"fallback": True})


@pytest.mark.parametrize(
    ("content", "choices"),
    [("0", (1,)), (" 2\n", (3,)), ("002", (3,)), ("7", (8,)), ("999999999", (1_000_000_000,))],
)
def test_indices_are_written_from_zero(content, choices):
    assert GRAMMAR.parse(f"<select>{content}</select>").action.choices == choices


@pytest.mark.parametrize("content", ["", "-1", "1, 2", "9" * 10, "\u0661", "\u00b2"])
def test_indices_that_cannot_be_read(content):
    text = f"<select>{content}</select>"
    assert GRAMMAR.parse(text).action.reason is InvalidReason.BAD_ARGUMENT
    assert FORGIVING.parse(text).action.choices == ()


@pytest.mark.parametrize(
    ("content", "boxes"),
    [
        ("[[1, 2, 3.5, 4], [-5, -6, 9999, 8]]", ((1, 2, 3.5, 4), (-5, -6, 9999, 8))),
        ("[1, 2, 3, 4]", ((1, 2, 3, 4),)),
        (str([[1, 2, 3, 4]] * 8), ((1, 2, 3, 4),) * 8),
    ],
)
def test_boxes(content, boxes):
    assert GRAMMAR.parse(f"<bbox>{content}</bbox>").action.boxes == boxes


@pytest.mark.parametrize(
    ("content", "clause"),
    [
        ("2", "JSON"),
        ("[[1, 2, 3]]", "JSON"),
        ("[[1, 2, 3, true]]", "JSON"),
        ("[[1, 2, 3, NaN]]", "JSON"),
        ("[[1, 2, 3, 1e999]]", "x1 < x2"),
        ("[[1, 4, 3, 2]]", "y1 < y2"),
        ("[[1, 2, 3, 4], [3, 2, 1, 4]]", "x1 < x2"),
        (str([[1, 2, 3, 4]] * 9), "8"),
        ("[" * 100_000, "JSON"),
    ],
    ids=lambda text: text[:20],
)
def test_boxes_that_cannot_be_read(content, clause):
    """One invalid box makes the whole action invalid, and so does anything but a list of boxes."""
    action = GRAMMAR.parse(f"<bbox>{content}</bbox>").action
    assert action.reason is InvalidReason.BAD_ARGUMENT
    assert clause in action.detail


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("<information>a</information>", ["a"]),
        ("<information> \n</information>", []),
        ("<information><think>a</think></information>", []),
        ("<information>a</information><information>b</information>", ["a", "b"]),
    ],
)
def test_notes(text, notes):
    for stop in (StopCause.END_OF_TURN, StopCause.CONTROL_TOKEN):
        assert [text[slice(*span)] for span in GRAMMAR.parse(text, stop).notes] == notes


TAGS = ("search", "select", "bbox", "answer")
PIECES = (
    [f"<{slash}{tag}>" for tag in (*TAGS, "think", "information") for slash in ("", "/")]
    + ["a", " ", "0", "[1,2,3,4]", "[[1,2,3,4]]", "<", "</", "\x00", "\ud800", "9" * 40]
)  # fmt: skip


def blanked(text, pattern):
    return re.sub(pattern, lambda found: " " * len(found[0]), text, flags=re.DOTALL)


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.sampled_from([GRAMMAR, FORGIVING]),
)
def test_equals_the_rules_step_by_step(text, grammar):
    visible = blanked(text, r"<think>.*?(</think>|\Z)")
    turn, plain = (
        grammar.parse(text),
        grammar.parse(blanked(visible, "<information>.*?</information>")),
    )
    notes = re.findall("<information>(.*?)</information>", visible, re.DOTALL)
    assert len(turn.notes) == sum(bool(note.strip()) for note in notes)
    assert turn.surplus == plain.surplus
    # the clause may name the unclosed thought, which is blank here
    reasons = [getattr(each.action, "reason", each.action) for each in (turn, plain)]
    assert (reasons[0], turn.action.block) == (reasons[1], plain.action.block)
    if not isinstance(turn.action, Invalid):
        (start, end), (first, last) = turn.action.block, turn.action.argument
        assert (text[start], text[end - 1]) == ("<", ">")
        assert start < first <= last < end
    # whatever the policy wrote, feedback made of it holds no action
    elif turn.action.detail:
        assert grammar.parse(f"feedback: {turn.action.detail}").action.block is None
