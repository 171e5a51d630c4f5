from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from docagent_rl.errors import UserError
from docagent_rl.viewer.figure import funnel_figure
from tests.viewer_runs import run_folder, session


def texts(svg):
    return [each.text for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def ask(tmp_path, store, asked):
    made = [session(store, 0), session(store, 1, reward=0.0), session(store, 0, step=2)]
    for each in made[:2]:
        each.record["dataset"] = "<b>$x$</b> & \x1b"
    return asked(run_folder(tmp_path / "run", made))


def test_stages_and_counts_are_there(ask):
    found = texts(funnel_figure(ask("/api/runs/0/funnel"), "none"))
    assert {"questions", "found", "looked at", "right", "all (3)"} <= set(found)
    assert found.count("3") == 6
    assert found.count("2") == 1


def test_steps_are_lines(ask):
    found = texts(funnel_figure(ask("/api/runs/0/funnel?by=step"), "step"))
    assert {"step", "found", "right"} <= set(found)


def test_names_are_texts_and_nothing_else(ask):
    svg = funnel_figure(ask("/api/runs/0/funnel?by=dataset"), "dataset")
    assert "<b>$x$</b> & \\x1b (2)" in texts(svg)
    assert svg == funnel_figure(ask("/api/runs/0/funnel?by=dataset"), "dataset")


def test_without_evidence_there_is_no_picture(ask):
    with pytest.raises(UserError, match="no funnel"):
        funnel_figure(ask("/api/runs/0/funnel?step=9"), "none")
