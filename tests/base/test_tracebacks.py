from __future__ import annotations

import base64

from docagent_rl.base.tracebacks import clean, last_lines, traceback_text


def raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


def test_a_traceback_keeps_where_and_what():
    text = traceback_text(raised("the seventh page"))
    assert "in raised" in text
    assert last_lines(text, 1) == "ValueError: the seventh page"


def test_pictures_are_left_out():
    picture = base64.b64encode(bytes(range(256)) * 40).decode()
    text = traceback_text(raised(f"got data:image/png;base64,{picture} here"))
    assert picture[:60] not in text
    assert f"[{len(picture)} characters] here" in text


def test_what_no_file_can_hold_is_escaped():
    assert clean("a \ud800 b") == "a \\ud800 b"
    clean("a \ud800 b").encode()


def test_long_lines_are_cut():
    assert len(clean("word " * 1000)) == 501
