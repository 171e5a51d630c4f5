from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.surrogates import encodable, lone_surrogate


@given(st.text(st.characters(codec=None)))
def test_any_text_can_be_written(text):
    written = encodable(text)
    assert written.encode("utf-8").decode() == written
    assert len(written) == len(text)
    assert (written == text) == (lone_surrogate(text) is None)


def test_each_half_becomes_one_mark():
    assert encodable("a\ud83d\udc4d é") == "a?? é"
    assert encodable("👍 図") == "👍 図"


def test_the_first_half_is_named():
    assert lone_surrogate("é\udc4d\ud83d") == r"'\udc4d'"
