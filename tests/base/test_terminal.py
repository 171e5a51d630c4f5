import io
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import one_line, shown, visible
from docagent_rl.documents import PageRef
from docagent_rl.documents.manifest import Manifest, Source
from docagent_rl.documents.sources import discover
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.samples.sample import Sample, Split, parse_page_id

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


ACTING = ["\n", "\t", "\x1b[31m", "\u2028", "\u202e", "\u2066", "\x9b", "\U000e0041"]


@pytest.mark.parametrize("bad", ACTING)
def test_no_id_acts_on_a_terminal_or_turns_text_around(tmp_path, bad):
    name, good = f"a{bad}b", "ü 漢\u3000字 (1)_v1.2#x"
    for each in (good, name):
        (tmp_path / f"{each}.pdf").touch()
    found = discover(tmp_path)
    assert [each.doc_id for each in found.documents] == [good]
    told = [each.name for each in found.failed] + [each.reason for each in found.failed]
    ids = {"question_id": good, "dataset": good, "doc_id": good}
    rest = {"split": Split.VAL, "question": "?", "answers": ()}
    about = {"source": Source("a", "b"), "settings": "", "software": "", "outline": (), "pages": ()}
    makers = [
        *[lambda key=key: Sample(**{**ids, key: name}, **rest) for key in ids],
        lambda: PageRef(name, 1),
        lambda: parse_page_id(f"{name}#1"),
        lambda: Manifest(doc_id=name, **about),
        lambda: RunFolder(tmp_path / name).begin({}),
        lambda: ViewedRun(tmp_path / name),
    ]
    for make in makers:
        with pytest.raises((UserError, ValueError)) as error:
            make()
        told.append(str(error.value))
    assert len(told) == 10
    assert [line for line in told if one_line(name) not in line or bad in line] == []


@given(ANY_TEXT)
def test_nothing_is_markup(text):
    out = io.StringIO()
    Console(file=out, width=100_000, force_terminal=True, color_system=None).print(
        shown(f"a{text}")
    )
    assert out.getvalue().split() == visible(f"a{text}").split()
