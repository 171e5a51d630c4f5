from __future__ import annotations

import io
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from docagent_rl.terminal import shown, visible

ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(
    "\x00\x07\r\n\t\x1b\x9b[]/b\u202e\ud800\uffff"
)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b]52;c;eA==\x07", r"\x1b]52;c;eA==\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("a\r\nb\rc\n\td", "a\nb\\rc\n\td".replace(r"\r", r"\x0d")),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("\ud83d\ufffe", r"\ud83d\ufffe"),
        ("\U000e0041", r"\U000e0041"),
        ("[/b] é 漢 🙂 \u200b", "[/b] é 漢 🙂 \u200b"),
    ],
)
def test_what_would_act_is_spelt_out(text, seen):
    assert visible(text) == seen


@given(ANY_TEXT)
def test_any_text_can_be_printed_and_put_into_xml(text):
    seen = visible(text)
    assert not [c for c in seen if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert seen.isprintable() or seen.encode()
    element = ElementTree.Element("x")
    element.text = seen
    assert ElementTree.fromstring(ElementTree.tostring(element)).text == (seen or None)
    assert visible(seen) == seen


@given(ANY_TEXT)
def test_nothing_is_markup(text):
    out = io.StringIO()
    Console(file=out, width=100_000, force_terminal=True, color_system=None).print(shown(f"a{text}"))
    assert out.getvalue().split() == visible(f"a{text}").split()
