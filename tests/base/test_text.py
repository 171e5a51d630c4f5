import base64

from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.text import clean, encodable, lone_surrogate, traceback_text


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
