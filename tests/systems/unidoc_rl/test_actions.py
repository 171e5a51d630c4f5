from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions import Answer, Crop, Invalid, InvalidReason, Search, Select, StopCause
from docagent_rl.systems.unidoc_rl.actions import UniDocGrammar

GRAMMAR = UniDocGrammar()
FORGIVING = UniDocGrammar(select_fallback=True)


def parse(text, stop=StopCause.END_OF_TURN):
    return GRAMMAR.parse(text, stop)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<think>a</think><search>annual report</search>", Search),
        ("<think>a</think><select>0</select>", Select),
        ("<think>a</think><bbox>[[1, 2, 3, 4]]</bbox>", Crop),
        ("<think>a</think><information>b</information><think>c</think><search>d</search>", Search),
        ("<think>a</think><information>b</information><think>c</think><answer>d</answer>", Answer),
    ],
)
def test_the_regular_turns(text, kind):
    turn = parse(text)
    assert isinstance(turn.action, kind)
    assert turn.surplus == ()
    assert len(turn.notes) == text.count("<information>")
    assert len(turn.thoughts) == text.count("<think>")


@pytest.mark.parametrize(
    ("content", "choices"),
    [("0", (1,)), (" 2\n", (3,)), ("002", (3,)), ("7", (8,)), ("999999999", (1_000_000_000,))],
)
def test_indices_are_written_from_zero(content, choices):
    assert parse(f"<select>{content}</select>").action.choices == choices


@pytest.mark.parametrize("content", ["", "-1", "[1]", "1, 2", "9" * 5000, "\u0661", "\u00b2"])
def test_indices_that_cannot_be_read(content):
    action = parse(f"<select>{content}</select>").action
    assert isinstance(action, Invalid)
    assert action.reason is InvalidReason.BAD_ARGUMENT
    forgiven = FORGIVING.parse(f"<select>{content}</select>").action
    assert isinstance(forgiven, Select)
    assert forgiven.choices == ()


def test_boxes():
    assert parse("<bbox>[[1, 2, 3.5, 4], [-5, -6, 9999, 8]]</bbox>").action.boxes == (
        (1, 2, 3.5, 4),
        (-5, -6, 9999, 8),
    )
    assert parse("<bbox>[1, 2, 3, 4]</bbox>").action.boxes == ((1, 2, 3, 4),)
    assert parse("<bbox>[1.5, 2, 3, 4]</bbox>").action.boxes == ((1.5, 2, 3, 4),)


@pytest.mark.parametrize(
    ("content", "clause"),
    [
        ("2", "JSON"),
        ("[]", "JSON"),
        ("[[]]", "JSON"),
        ("[[1, 2, 3]]", "JSON"),
        ("[1, 2, 3, 4, 5]", "JSON"),
        ("[[1, 2, 3, 4], 5]", "JSON"),
        ("[[1, 2, 3, true]]", "JSON"),
        ('[[1, 2, 3, "4"]]', "JSON"),
        ("[[1, 2, 3, NaN]]", "JSON"),
        ('[{"bbox": [1, 2, 3, 4]}]', "JSON"),
        ("[[[1, 2, 3, 4]]]", "JSON"),
        ("[[1, 2, 3, 4]", "JSON"),
        ("[[1, 2, 3, 1e999]]", "x1 < x2"),
        ("[[1, 4, 3, 2]]", "y1 < y2"),
        ("[[1, 2, 1, 4]]", "x1 < x2"),
        ("[[1, 2, 3, 4], [3, 2, 1, 4]]", "x1 < x2"),
        (str([[1, 2, 3, 4]] * 9), "8"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_boxes_that_cannot_be_read(content, clause):
    """One wrong box refuses the whole action, and nothing but a list of boxes does anything."""
    action = parse(f"<bbox>{content}</bbox>").action
    assert isinstance(action, Invalid)
    assert action.reason is InvalidReason.BAD_ARGUMENT
    assert clause in action.detail


def test_the_number_of_boxes_is_a_setting():
    text = "<bbox>[[1, 2, 3, 4], [1, 2, 3, 4]]</bbox>"
    assert isinstance(UniDocGrammar(max_boxes=1).parse(text).action, Invalid)
    assert len(UniDocGrammar(max_boxes=2).parse(text).action.boxes) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<information>a</information>", InvalidReason.NO_ACTION),
        ("<think><select>1</select></think>", InvalidReason.NO_ACTION),
        ("<information><answer>1</answer></information>", InvalidReason.NO_ACTION),
        ("<search>a<select>0</select></search>", InvalidReason.NESTED),
        ("<bbox>[[1, 2, 3, 4]]</select>", InvalidReason.UNCLOSED),
        ("<search> </search>", InvalidReason.BAD_ARGUMENT),
    ],
)
def test_invalid_turns(text, reason):
    assert parse(text).action.reason is reason


def test_an_unclosed_note_hides_nothing():
    turn = parse("<information>I know: <answer>blue</answer>")
    assert turn.action.text == "blue"
    assert turn.notes == ()


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("<information>a</information>", ["a"]),
        ("<information> \n</information>", []),
        ("<information><think>a</think></information>", []),
        ("<think><information>a</information></think>", []),
        ("<information>a</information><information>b</information>", ["a", "b"]),
        ("<information>a", []),
        ("a</information>", []),
    ],
)
def test_notes(text, notes):
    assert [text[slice(*span)] for span in parse(text).notes] == notes


def test_notes_of_a_turn_without_action_are_reported():
    for stop in (StopCause.TRUNCATED, StopCause.CONTROL_TOKEN):
        assert len(parse("<information>a</information>", stop).notes) == 1


def test_ablations():
    grammar = UniDocGrammar(select=False, crop=False)
    assert grammar.tags == ("search", "answer")
    assert grammar.parse("<select>0</select>").action.reason is InvalidReason.NO_ACTION
    assert grammar.parse("<bbox>[1,2,3,4]</bbox>").action.reason is InvalidReason.NO_ACTION


TAGS = ("search", "select", "bbox", "answer")
PIECES = (
    [f"<{slash}{tag}>" for tag in (*TAGS, "think", "information") for slash in ("", "/")]
    + ["a", " ", "0", "[1,2,3,4]", "[[1,2,3,4]]", "<", "</", "\x00", "\ud800", "9" * 40]
)  # fmt: skip


def blanked(text, tag, *, to_end):
    """Blocks of a tag overwritten, and their contents; one character at a time."""
    out, contents, at = "", [], 0
    while at < len(text):
        if text.startswith(f"<{tag}>", at):
            end = text.find(f"</{tag}>", at)
            if end >= 0:
                stop = end + len(f"</{tag}>")
                contents.append(text[at + len(f"<{tag}>") : end])
                out, at = out + " " * (stop - at), stop
                continue
            if to_end:
                return out + " " * (len(text) - at), contents
        out, at = out + text[at], at + 1
    return out, contents


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_equals_the_rules_step_by_step(text):
    visible, _ = blanked(text, "think", to_end=True)
    without_notes, notes = blanked(visible, "information", to_end=False)
    turn = GRAMMAR.parse(text)
    assert len(turn.notes) == sum(bool(note.strip()) for note in notes)
    plain = UniDocGrammar().parse(without_notes)
    assert turn.surplus == plain.surplus
    if isinstance(turn.action, Invalid):
        # the clause may name the unclosed thought, which is blank here
        assert (turn.action.reason, turn.action.block) == (plain.action.reason, plain.action.block)
    else:
        assert turn.action == plain.action


@given(st.text(max_size=200), st.sampled_from(StopCause))
def test_any_text_parses(text, stop):
    for grammar in (GRAMMAR, FORGIVING):
        turn = grammar.parse(text, stop)
        assert isinstance(turn.action, Invalid | Answer | Search | Select | Crop)


def test_five_thousand_adversarial_turns():
    rng = random.Random(0)
    kinds = set()
    for number in range(5000):
        text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(14)))
        stop = rng.choice(list(StopCause)) if number % 3 == 0 else StopCause.END_OF_TURN
        action = GRAMMAR.parse(text, stop).action
        kinds.add(action.reason if isinstance(action, Invalid) else type(action))
        if isinstance(action, Invalid) and action.detail:
            assert GRAMMAR.parse(f"feedback: {action.detail}").action.block is None
    assert kinds == {
        Search, Select, Crop, Answer,
        InvalidReason.NO_ACTION, InvalidReason.UNCLOSED, InvalidReason.NESTED, InvalidReason.TRUNCATED,
        InvalidReason.CONTROL_TOKEN, InvalidReason.BAD_ARGUMENT,
    }  # fmt: skip


@pytest.mark.parametrize(
    "unit",
    [
        "<information>",
        "</information>",
        "<information>a</information>",
        "<select>9</select>",
        "<bbox>[[1,2,3,4]]</bbox>",
        "<think><information>",
    ],
)
def test_a_megabyte_parses(unit):
    """A parser that is not linear in the length would take minutes."""
    GRAMMAR.parse(unit * (1_000_000 // len(unit)))


@pytest.mark.parametrize(
    "content",
    ["[" * 500_000, "9" * 1_000_000, "[" + "9" * 1_000_000 + "]", "[1]," * 200_000, "[[1,2,3,4]," * 90_000],
)
def test_huge_arguments(content):
    for tag in ("bbox", "select"):
        assert isinstance(GRAMMAR.parse(f"<{tag}>{content}</{tag}>").action, Invalid)
