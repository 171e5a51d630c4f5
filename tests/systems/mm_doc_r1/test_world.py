from __future__ import annotations

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.world import document_world


@pytest.fixture
def world(report_store, report_question):
    def make(extra=None, **overrides):
        sample = report_question(extra=extra or {})
        return document_world(sample, report_store, MMDocConfig.for_variant(**overrides))

    return make


def test_the_whole_document(world):
    report = world()
    assert list(report.texts) == [1, 2, 3, 4, 5, 6]
    assert report.texts[6] == ""
    # the numbered headings of page 1 and those of the sections: the PDF has no bookmarks
    assert "2 Ferries \u2026 p.3" in report.toc.splitlines()
    assert report.figures == "Table 1. Ferries of Velmora by year \u2026 p.3"
    assert [hit.ref for hit in report.index.search("kantora", 5)] == [PageRef("R", 2)]


def test_a_window_is_all_there_is(world):
    report = world({"window": [3, 5]})
    assert list(report.texts) == [3, 4, 5]
    assert report.index.search("kantora", 5) == []
    assert "p.2" not in report.toc
    assert list(world({"window": [3, 5]}, window=False).texts) == [1, 2, 3, 4, 5, 6]
    assert list(world({"window": (6, 6)}).texts) == [6]


def test_word_statistics_are_those_of_the_window(world):
    scores = [world(extra).index.search("teal", 5)[0].score for extra in ({}, {"window": [3, 4]})]
    assert scores[0] > scores[1]


@pytest.mark.parametrize("window", [[0, 3], [3, 2], [1, 7], [1], "1-3", [1.0, 2.0], ["1", "2"]])
def test_windows_outside_the_document(world, window):
    with pytest.raises(UserError, match=r"'r1'.*extra\.window.*6 pages of 'R'"):
        world({"window": window})


def test_an_unknown_document(report_store, report_question):
    with pytest.raises(UserError, match=r"'r1'.*no document 'Z'"):
        document_world(report_question(doc_id="Z"), report_store, MMDocConfig())


def test_prepared_once(world):
    assert world() is world()
    assert world() is not world({"window": [1, 6]}, plan={"toc": False})
    assert world({"window": [1, 6]}) is world()


def test_ablations(world):
    bare = world(plan={"toc": False, "figures": False})
    assert (bare.toc, bare.figures, bare.headings) == ("none", "none", ())
