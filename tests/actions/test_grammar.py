import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions.base import Crop, Invalid, InvalidReason
from docagent_rl.actions.grammar import TagScanner, read_box

SPANS = ((0, 9), (2, 7))


def box_of(text):
    action = read_box(text, *SPANS)
    assert isinstance(action, Crop), action
    return action.boxes


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("[1, 2, 3, 4]", (1, 2, 3, 4)),
        ("[1.5,2e1,0,4E-1]", (1.5, 20, 0, 0.4)),
        ("[\n 9,\t8, 7, 6 ]", (9, 8, 7, 6)),
        ("[0, 0, 1e308, " + "9" * 300 + "]", (0, 0, 1e308, float("9" * 300))),
    ],
)
def test_boxes(text, box):
    assert box_of(text) == (box,)


@pytest.mark.parametrize(
    "text",
    [
        "", "1, 2, 3, 4", "[1, 2, 3]", "[1, 2, 3, 4, 5]", "[[1, 2, 3, 4]]", "[1, 2, 3, true]",
        "[1, 2, 3, null]", '[1, 2, 3, "4"]', "[1, 2, 3, -4]", "[1, 2, 3, NaN]",
        "[1, 2, 3, Infinity]",
        "[-Infinity, 2, 3, "
        "4]", "[1, 2, 3, 1e999]", "[1, 2, 3, " + "9" * 400 + "]", "[1, 2, 3, 4] ok",
        "[1, 2, 3, 4,]", "(1, 2, 3, 4)", "[01, 2, 3, 4]", "[+1, 2, 3, 4]", "[.5, 2, 3, 4]",
        "[1 2 3 4]",
        '{"x1": 1}', "null", "4", "[0x1, 2, 3, 4]", "[" * 100_000, "[" * 500 + "]" * 500,
        "[1_0, 2, 3, 4]", "['1', 2, 3, 4]", "__import__('os')",
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_not_boxes(text):
    action = read_box(text, *SPANS)
    assert isinstance(action, Invalid)
    assert action.reason is InvalidReason.BAD_ARGUMENT
    assert (action.block, action.argument) == SPANS


@pytest.mark.parametrize(
    "text",
    [
        "9" * 1_000_000,
        "[" * 1_000_000,
        "[1," * 300_000,
        "[1, 2, 3, " + "9" * 1_000_000 + "]",
        "-" * 1_000_000,
    ],
)
def test_large_arguments_are_refused(text):
    """Parsing takes linear time: a pattern that backtracks over these would take hours."""
    assert isinstance(read_box(text, *SPANS), Invalid)


@given(st.lists(st.floats(0, 1e300) | st.integers(0, 10**12), min_size=4, max_size=4))
def test_what_json_writes_is_read(numbers):
    assert box_of(json.dumps(numbers)) == (tuple(map(float, numbers)),)


@given(st.text(max_size=60))
def test_never_raises(text):
    assert isinstance(read_box(text, *SPANS), Crop | Invalid)


TAGS = ("search", "bbox", "answer")
PIECES = (
    [f"<{slash}{tag}>" for tag in (*TAGS, "think", "other") for slash in ("", "/")]
    + ["<", ">", "</", "<search", "search>", " ", "\n", "x", "é", "\U0001f600", "<think",
    "<<search>>"]
)  # fmt: skip


def slow_scan(text: str) -> tuple[str, list[tuple[str, str, bool]]]:
    """Scan a text by the rules alone, one character at a time and in quadratic time."""
    visible = ""
    rest = text
    while "<think>" in rest:
        before, _, after = rest.partition("<think>")
        if "</think>" not in after:
            visible, rest = visible + before + " " * (len(rest) - len(before)), ""
            break
        inner, _, tail = after.partition("</think>")
        visible += before + " " * (len("<think></think>") + len(inner))
        rest = tail
    visible += rest
    blocks, at = [], 0
    while at < len(visible):
        for tag in TAGS:
            opening, closing = f"<{tag}>", f"</{tag}>"
            end = visible.find(closing, at + len(opening))
            if visible.startswith(opening, at) and end >= 0:
                content = visible[at + len(opening) : end]
                nested = any(f"<{s}{t}>" in content for t in TAGS for s in ("", "/"))
                blocks.append((tag, content.strip(), nested))
                at = end + len(closing) - 1
                break
        at += 1
    return visible, blocks


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_equals_the_slow_version(text):
    scan = TagScanner(TAGS).scan(text)
    visible, blocks = slow_scan(text)
    assert scan.visible == visible
    assert [(b.tag, scan.content(b), b.nested) for b in scan.blocks] == blocks


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_spans_point_into_the_original_text(text):
    scan = TagScanner(TAGS).scan(text)
    assert len(scan.visible) == len(text)
    for block in scan.blocks:
        assert text[slice(*block.outer)].startswith(f"<{block.tag}>")
        assert text[slice(*block.outer)].endswith(f"</{block.tag}>")
        assert scan.visible[slice(*block.outer)] == (
            f"<{block.tag}>{scan.visible[slice(*block.inner)]}</{block.tag}>"
        )
    for start, end in scan.hidden:
        assert text[:start].endswith("<think>")
        assert text[end:].startswith("</think>")


UNITS = (
    "<search>", "</search>", "<think>", "<think></think>", "<", "<search>a</search>",
    "<bbox>[</bbox>", "<<",
)  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_text_is_read(unit):
    """Scanning takes linear time: a quadratic scan of these would take many minutes."""
    size = 100_000
    mixed = "".join(random.Random(unit).choices([unit, *PIECES], k=size // 10))
    for text in (unit * (size // len(unit)), mixed):
        assert len(TagScanner(TAGS).scan(text).visible) == len(text)


def test_notes_are_blanked_after_hidden_blocks_and_only_when_closed():
    scanner = TagScanner(TAGS, notes=("note",))
    scan = scanner.scan(
        "<think><note>a</note></think><note><answer>b</answer></note><note> "
        "</note><answer>c</answer>"
    )
    assert [scan.content(block) for block in scan.blocks] == ["c"]
    assert [scan.visible[slice(*span)].strip() for span in scan.notes] == [""]
    assert len(scan.notes) == 1
    unclosed = scanner.scan("<note>a<answer>b</answer>")
    assert [unclosed.content(block) for block in unclosed.blocks] == ["b"]
    assert unclosed.notes == ()
    assert not unclosed.hidden_open


@given(st.lists(st.sampled_from([*PIECES, "<note>", "</note>"]), max_size=40).map("".join))
def test_without_notes_a_note_is_plain_text(text):
    assert TagScanner(TAGS).scan(text).notes == ()
    scan = TagScanner(TAGS, notes=("note",)).scan(text)
    assert len(scan.visible) == len(text)
    if "<note>" not in text:
        assert scan.blocks == TagScanner(TAGS).scan(text).blocks
