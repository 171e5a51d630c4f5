from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from docagent_rl.errors import UserError
from docagent_rl.viewer.figure import funnel_figure
from tests.viewer_runs import run_folder, session


@pytest.fixture
def drawn(tmp_path, store, asked):
    made = [session(store, 0), session(store, 1, reward=0.0), session(store, 0, step=2)]
    for each in made[:2]:
        each.record["dataset"] = "<b>$x$</b> & \x1b"
    ask = asked(run_folder(tmp_path / "run", made))

    def texts(query="", by="none"):
        svg = funnel_figure(ask(f"/api/runs/0/funnel?{query}"), by)
        if by == "dataset":
            assert svg == funnel_figure(ask(f"/api/runs/0/funnel?{query}"), by)
        return [each.text for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]

    return texts


def test_stages_and_counts_are_there(drawn):
    found = drawn()
    assert {"questions", "found", "looked at", "right", "all (3)"} <= set(found)
    assert (found.count("3"), found.count("2")) == (6, 1)


def test_steps_are_lines_and_names_are_texts_and_nothing_else(drawn):
    assert {"step", "found", "right"} <= set(drawn("by=step", "step"))
    assert "<b>$x$</b> & \\x1b (2)" in drawn("by=dataset", "dataset")


def test_without_evidence_there_is_no_picture(drawn):
    with pytest.raises(UserError, match="funnel"):
        drawn("step=9")
