"""Any text in any field of a trajectory can be looked at."""

from __future__ import annotations

import copy
import json
import unicodedata
from xml.etree import ElementTree

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from docagent_rl.commands.view import view_command
from docagent_rl.errors import UserError

IMAGE = {"page": "p#1", "page_hash": "h", "raster": [0, 0, 1, 2], "size": [5, 6]}
SHEET = {"canvas": [9, 9], "size": [8, 8], "tiles": [{"image": IMAGE, "at": [0, 0]}]}
TURN = {
    "text": "said", "stop": "truncated", "token_ids": [1], "log_probs": [-0.5], "reward": 0.5,
    "terms": {"ndcg": 0.5},
    "info": {"action": {"kind": "search"}, "valid": False, "detail": "d", "reason": "r", "effect": {
        "kind": "pages", "pages": [{"page": "p#1", "rank": 1, "score": 2.5, "gold": True}]}},
    "observation": [{"role": "user", "parts": [{"text": "shown"}, {"image": IMAGE}, {"image": SHEET}]}],
    "token_terms": [["ndcg", 0, 1, 0.5]],
}  # fmt: skip
LINE = {
    "uid": "u", "session": 0, "step": 1, "split": "train", "system": "vrag_rl", "status": "finished",
    "end": "answered", "error": "e", "version": 1, "turns": [TURN], "metrics": {"turns": 1.0},
    "record": {"question_id": "q", "question": "Which?", "answers": ["this"], "doc_id": "d",
               "evidence_pages": [1]},
}  # fmt: skip
ATTACKS = ["\x1b]0;owned\x07", "\x9b31m", "[/b]", "[bold]x", "[link=file:///x]y[/link]", ":smile:", "\x00",
           "\ufffe", "\ud800", "<![CDATA[", "]]>", "&amp;", "</text>", "@font-face {",
           "}", "{0}", "\u202e", "\r", "\u2028"]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(ATTACKS) | st.text(st.characters(exclude_categories=()), max_size=4), max_size=4
)


def places(node, way=()):
    """The way to every value that is no folder of others, and to every key."""
    if isinstance(node, dict | list):
        for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(inner, (*way, key))
    else:
        yield way


PLACES = list(places(LINE))
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_value(way, value):
    line = copy.deepcopy(LINE)
    node = line
    for step in way[:-1]:
        node = node[step]
    node[way[-1]] = value
    return line


def view(folder, line, *arguments):
    file = folder / "1.jsonl"
    file.write_text(json.dumps(line) + "\n", encoding="utf-8")
    app = typer.Typer()
    app.command()(view_command)
    result = CliRunner().invoke(
        app, [str(file), "--svg", str(folder / "x.svg"), "--force", *arguments], env={"COLUMNS": "120"}
    )
    return result, folder / "x.svg"


def looks(result, svg):
    assert result.exception is None
    bad = {c for c in result.output if unicodedata.category(c) in ("Cc", "Cs") and c != "\n"}
    assert not bad
    picture = svg.read_text(encoding="utf-8")
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "").replace(
        "https://www.textualize.io", ""
    )
    return "".join(ElementTree.fromstring(picture).itertext()).replace("\xa0", " ")


@MANY
@given(st.sampled_from(PLACES), TEXTS.map("".join), st.booleans())
def test_any_text_in_any_field(tmp_path, way, text, table):
    kept = with_value(way, text)
    result, svg = view(tmp_path, kept, *(["--table"] if table else []))
    if isinstance(result.exception, UserError):
        # no text belongs there
        found = LINE
        for step in way:
            found = found[step]
        assert not isinstance(found, str)
        assert "1.jsonl, line 1: " in str(result.exception)
    else:
        looks(result, svg)


@MANY
@given(TEXTS.map("".join))
def test_any_text_everywhere_at_once(tmp_path, text):
    line = LINE
    turn = {
        **TURN,
        "text": text,
        "stop": text,
        "terms": {text: 0.5},
        "info": {text: text, "valid": False, "detail": text},
    }
    turn["observation"] = [{"role": text, "parts": [{"text": text}, {"image": {**IMAGE, "page": text}}]}]
    line = {**LINE, "system": text, "end": text, "error": text, "turns": [turn],
            "record": {"question_id": text, "question": text, "answers": [text], "doc_id": text}}  # fmt: skip
    looks(*view(tmp_path, line))
    looks(*view(tmp_path, line, "--table"))


@pytest.mark.parametrize("attack", ATTACKS)
def test_known_attacks(tmp_path, attack):
    way = ("turns", 0, "observation", 0, "parts", 0, "text")
    inside = f"before {attack} after"
    said = looks(*view(tmp_path, with_value(way, inside)))
    assert "before " in said
    assert " after" in said
    if attack.isprintable():
        assert inside in said


def test_markup_in_an_id_is_text(tmp_path):
    line = with_value(("record", "question_id"), "[/b][red]q")
    assert "[/b][red]q" in view(tmp_path, line, "--table")[0].output
    assert "[/b][red]q" in view(tmp_path, line)[0].output


def test_escape_sequences_are_spelt_out(tmp_path):
    result, svg = view(tmp_path, with_value(("turns", 0, "text"), "\x1b[2Jgone\x1b]52;c;eA==\x07"))
    assert r"\x1b[2Jgone\x1b]52;c;eA==\x07" in result.output
    assert r"\x1b[2Jgone\x1b]52;c;eA==\x07" in looks(result, svg)


def test_text_takes_nothing_out_of_the_picture(tmp_path):
    way = ("turns", 0, "observation", 0, "parts", 0, "text")
    said = looks(*view(tmp_path, with_value(way, "@font-face{first\nsecond} third")))
    assert "second} third" in said
    assert "@font-face{first" in said


@pytest.mark.parametrize(
    ("way", "value"),
    [(("turns",), "x"), (("turns", 0), "x"), (("session",), "[/b]"), (("turns", 0, "terms", "ndcg"), "x"),
     (("record",), []), (("turns", 0, "observation", 0), "x"), (("step",), True),
     (("turns", 0, "text"), None)],
)  # fmt: skip
def test_a_field_of_another_type_is_named(tmp_path, way, value):
    result, _ = view(tmp_path, with_value(way, value))
    assert isinstance(result.exception, UserError)
    assert "1.jsonl, line 1: not a trajectory: " in str(result.exception)


@pytest.mark.parametrize("raw", [b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"version": 1, "turns": 3}'])
def test_a_line_that_is_no_trajectory(tmp_path, raw):
    file = tmp_path / "1.jsonl"
    file.write_bytes(raw + b"\n")
    app = typer.Typer()
    app.command()(view_command)
    error = CliRunner().invoke(app, ["--text", str(file)]).exception
    assert isinstance(error, UserError)
    assert "line 1" in str(error)
