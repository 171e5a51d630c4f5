import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.text import (
    clean,
    encodable,
    lone_surrogate,
    text_problem,
    traceback_text,
    unique_keys,
)


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_written(text):
    written = encodable(text)
    assert written.encode("utf-8").decode() == written
    assert len(written) == len(text)
    assert (written == text) == (lone_surrogate(text) is None)


def test_each_half_becomes_one_mark_and_the_first_is_named():
    assert encodable("a\ud83d\udc4d é") == "a?? é"
    assert encodable("👍 図") == "👍 図"
    assert lone_surrogate("é\udc4d\ud83d") == r"'\udc4d'"


def test_a_traceback_keeps_place_and_error_and_leaves_pictures_out():
    picture = base64.b64encode(bytes(range(256)) * 40).decode()
    try:
        raise ValueError(f"got data:image/png;base64,{picture} here")
    except ValueError as error:
        text = traceback_text(error)
    assert "in test_a_traceback" in text
    assert text.splitlines()[-1].startswith("ValueError: got data:image/png;")
    assert picture[:60] not in text
    assert f"[{len(picture)} characters] here" in text


def test_what_no_file_can_hold_is_escaped_and_long_lines_are_cut():
    assert clean("a \ud800 b") == "a \\ud800 b"
    assert len(clean("word " * 1000)) == 501


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (" \n", "is empty"),
        ("\u200b", r"only of spaces and invisible characters: '\\u200b'"),
        ("\ufeff \u00ad\u2060", "consists only of spaces"),
        ("\u3164\u2800", "consists only of spaces"),
        ("\u0301", "consists only of spaces"),
        ("who\x00", "NUL"),
        ("x" * 101, "101 characters; at most 100"),
    ],
)
def test_texts_that_nobody_can_read(text, named):
    assert named.replace("\\\\", "\\") in (text_problem(text, 100) or "")


@pytest.mark.parametrize(
    "text", ["?", "\u2212", "図", "नी", "👍", "a\u200bb", "\tx\n", "x" * 100, "\ue000"]
)
def test_texts_that_somebody_can_read(text):
    assert text_problem(text, 100) is None


def test_a_key_stands_once():
    assert json.loads('{"a": {"b": 1}, "b": 2}', object_pairs_hook=unique_keys) == {
        "a": {"b": 1},
        "b": 2,
    }
    with pytest.raises(ValueError, match=r"'b\\x1b' occurs twice"):
        json.loads('{"a": {"b\\u001b": 1, "b\\u001b": 1}}', object_pairs_hook=unique_keys)
