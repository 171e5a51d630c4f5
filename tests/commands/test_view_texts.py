"""Any text in any field of a trajectory can be looked at."""

from __future__ import annotations

import copy
import json
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.commands.view import view_command
from tests.commands.conftest import called

IMAGE = {"page": "p#1", "page_hash": "h", "raster": [0, 0, 1, 2], "size": [5, 6]}
SHEET = {"canvas": [9, 9], "size": [8, 8], "tiles": [{"image": IMAGE, "at": [0, 0]}]}
EFFECT = {"kind": "pages", "pages": [{"page": "p#1", "rank": 1, "score": 2.5, "gold": True}]}
TURN = {
    "text": "said", "stop": "truncated", "token_ids": [1], "log_probs": [-0.5], "reward": 0.5,
    "terms": {"ndcg": 0.5}, "token_terms": [["ndcg", 0, 1, 0.5]],
    "info": {"action": {"kind": "search"}, "valid": False, "detail": "d", "reason": "r", "effect": EFFECT},
    "observation": [{"role": "user", "parts": [{"text": "shown"}, {"image": IMAGE}, {"image": SHEET}]}],
}  # fmt: skip
SAMPLE = {"question_id": "q", "question": "Which?", "answers": ["this"], "doc_id": "d", "evidence_pages": [1]}
LINE = {
    "uid": "u", "number": 0, "step": 1, "split": "train", "system": "vrag_rl", "status": "finished",
    "end": "answered", "error": "e", "version": 1, "metrics": {"a": 1.0}, "turns": [TURN], "sample": SAMPLE,
}  # fmt: skip
ATTACKS = ["\x1b]0;owned\x07", "\x9b31m", "[/b]", "[bold]x", "[link=file:///x]y[/link]", ":smile:", "\x00",
           "\ufffe", "\ud800", "<![CDATA[", "]]>", "&amp;", "</text>", "@font-face {",
           "}", "{0}", "\u202e", "\r", "\u2028"]  # fmt: skip
TEXTS = st.lists(
    st.sampled_from(ATTACKS) | st.text(st.characters(exclude_categories=()), max_size=4), max_size=4
).map("".join)
SHOWN = ("turns", 0, "observation", 0, "parts", 0, "text")


def places(node, way=()):
    """The way to every value that is no folder of others, and to every key."""
    if isinstance(node, dict | list):
        for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(inner, (*way, key))
    else:
        yield way


PLACES = list(places(LINE))
SOME = settings(max_examples=12, suppress_health_check=list(HealthCheck))


def at(way, line=LINE):
    for step in way:
        line = line[step]
    return line


def with_value(way, value):
    line = copy.deepcopy(LINE)
    at(way[:-1], line)[way[-1]] = value
    return line


def view(folder, line, *arguments):
    """What the terminal and the picture show, without anything that a terminal or a browser would obey."""
    file, svg = folder / "1.jsonl", folder / "x.svg"
    file.write_text(json.dumps(line) + "\n", encoding="utf-8")
    output = called(view_command, file, "--svg", svg, "--force", *arguments).output
    assert not {c for c in output if unicodedata.category(c) in ("Cc", "Cs") and c != "\n"}
    picture = svg.read_text(encoding="utf-8")
    rest = picture.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")
    assert "http" not in rest
    return output, "".join(ElementTree.fromstring(picture).itertext()).replace("\xa0", " ")


@SOME
@given(st.sampled_from(PLACES), TEXTS, st.booleans())
def test_any_text_in_any_field(tmp_path, way, text, table):
    refusal = None
    try:
        view(tmp_path, with_value(way, text), *(["--table"] if table else []))
    except UserError as error:
        refusal = str(error)
    if refusal is not None:  # no text belongs there
        assert not isinstance(at(way), str)
        assert "1.jsonl, line 1: " in refusal


@pytest.mark.parametrize(
    ("way", "text", "parts"),
    [
        (("sample", "question_id"), "[/b][link=file:///x]q", ["[/b][link=file:///x]q"]),
        (("turns", 0, "text"), "\x1b[2Jgone\x1b]52;c;eA==\x07", [r"\x1b[2Jgone\x1b]52;c;eA==\x07"]),
        (SHOWN, "@font-face{first\nsecond} third", ["@font-face{first", "second} third"]),
    ],
)
def test_texts_are_spelt_out_in_the_terminal_and_in_the_picture(tmp_path, way, text, parts):
    for said in view(tmp_path, with_value(way, text)):
        assert all(part in said for part in parts)


@pytest.mark.parametrize("raw", [b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"version": 1, "turns": 3}'])
def test_a_line_that_is_no_trajectory(tmp_path, raw):
    (tmp_path / "1.jsonl").write_bytes(raw + b"\n")
    with pytest.raises(UserError, match="line 1"):
        called(view_command, "--text", tmp_path / "1.jsonl")
