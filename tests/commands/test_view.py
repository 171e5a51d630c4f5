"""Any text in any field of a trajectory can be looked at."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import sys
import unicodedata
import urllib.request
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.commands.view import view_command
from docagent_rl.lab.viewer.export import Build
from tests.commands.conftest import called
from tests.corpus import store  # noqa: F401  a fixture
from tests.viewer_runs import run_folder, sheet, shown, trajectory


@pytest.fixture
def folder(store, tmp_path):  # noqa: F811
    """A run of one trajectory that was played and one that was not."""
    good, masked = (
        trajectory(store, said="[bold]no markup[/bold]"),
        trajectory(store, 1, status="masked", turns=[]),
    )
    masked.error = "judge down"
    good.turns[0].info["effect"]["pages"][0]["gold"] = True
    good.turns[0].observation += shown(sheet(store, "K#1", "K#2"))
    return run_folder(tmp_path / "run", [good, masked])


@pytest.fixture
def file(folder):
    return folder / "trajectories" / "1.jsonl"


def view(*arguments):
    return called(view_command, *arguments).output


def test_a_trajectory_is_readable(file):
    output = view("--text", file, "--number", 1)
    hits = (
        "K#3 (rank 2, score 2.00, gold)",
        "shown at 84x84]",
        "[sheet of 2 pieces of K#1, K#2 shown at",
    )
    for piece in ("When was it opened, 1?", "[bold]no markup[/bold]", "40 tokens", *hits):
        assert piece in output


def test_table_filters_and_picture(file, tmp_path):
    assert view(file, "--table").count("q1") == 2
    output = view(file, "--status", "masked", "--svg", tmp_path / "x.svg")
    assert "judge down" in output
    assert "<svg" in (tmp_path / "x.svg").read_text()


def test_trajectories_are_written_as_one_file_and_the_funnel_is_drawn(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Build, "shipped", lambda: Build("run()", ""))
    target = tmp_path / "case.html"
    view(folder, "--export", target, "--query", "status=finished")
    assert '"question": "When was it opened, 1?"' in target.read_text()
    with pytest.raises(UserError, match=r"case\.html"):
        view(folder, "--export", target, "--query", "status=masked")
    view(folder, "--export", target, "--query", "status=masked", "--force")
    assert "judge down" in target.read_text()
    view(folder, "--funnel", tmp_path / "funnel.svg")
    picture = (tmp_path / "funnel.svg").read_text()
    assert "looked at" in picture
    assert ">train" in picture  # validations are apart


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN", "--trajectory", "1"], "--export"),
        (["RUN", "--export", "x.html", "--trajectory", "1"], "no trajectory"),
        (["RUN", "--store", "nowhere"], "nowhere"),
        (["RUN", "--funnel", "x.svg", "--by", "x"], "by='x'"),
        (["RUN", "RUN", "--text"], "one run"),
    ],
)
def test_what_makes_no_sense_is_said(folder, arguments, message):
    with pytest.raises(UserError, match=message):
        view(*(folder if each == "RUN" else each for each in arguments))


@pytest.mark.slow
def test_the_page_is_served_until_interrupted(folder):
    command = [sys.executable, "-m", "docagent_rl.cli", "view", str(folder), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address, _, token = process.stdout.readline().split()[0].partition("?token=")
        assert address.startswith("http://127.0.0.1:")
        request = urllib.request.Request(f"{address}api/runs", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            assert [run["name"] for run in json.load(answer)["runs"]] == [folder.name]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()


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


def printed(folder, line, *arguments):
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
        printed(tmp_path, with_value(way, text), *(["--table"] if table else []))
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
    for said in printed(tmp_path, with_value(way, text)):
        assert all(part in said for part in parts)


@pytest.mark.parametrize("raw", [b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"version": 1, "turns": 3}'])
def test_a_line_that_is_no_trajectory(tmp_path, raw):
    (tmp_path / "1.jsonl").write_bytes(raw + b"\n")
    with pytest.raises(UserError, match="line 1"):
        called(view_command, "--text", tmp_path / "1.jsonl")
