from __future__ import annotations

import pytest

from docagent_rl.retrieval.bm25 import BM25Retriever
from tests.viewer_runs import run_folder, session


@pytest.fixture
def index(store, tmp_path):
    BM25Retriever.build(store).save(tmp_path / "words")
    return tmp_path / "words"


@pytest.fixture
def folder(tmp_path, store):
    """A question that names its page, one that names another, one without evidence, one that asked itself."""
    made = []
    for number, question in enumerate(("Where is pagek3?", "Where is pagek5?", "pagek3?", "Say pagek9!"), 1):
        one = session(store, 0, question=number)
        one.record["question"] = question
        one.turns = one.turns[-1:]
        made.append(one)
    made[2].record["evidence_pages"] = []
    made[3].turns = session(store).turns
    made[3].turns[0].searches[0] |= {"query": "say PAGEK9", "top_k": 1, "doc_id": "K"}
    return run_folder(tmp_path / "run", made)


def test_questions_are_asked_of_the_index(folder, index, opened, asked):
    opened(folder, index=index)
    ask = asked(folder)
    rows = ask("/api/runs/0/sessions?sort=question")["rows"]
    stages = {row["question_id"]: row["stage"] for row in rows}
    assert stages == {"q1": "reach", "q2": "all", "q3": None, "q4": "right"}
    (group,) = ask("/api/runs/0/funnel")["groups"]
    assert (group["counts"]["all"], group["counts"]["reach"], group["counts"]["found"]) == (3, 2, 1)
    assert group["filters"]["found"] == "stage=reach"
    (number,) = group["lost"]["found"]
    assert ask(f"/api/runs/0/sessions/{number}")["stage"] == "reach"


def test_only_what_is_new_is_asked(folder, store, index, opened, monkeypatch):
    (run,) = opened(folder, index=index)
    asked, search = [], BM25Retriever.search

    def counted(self, queries, **more):
        asked.extend(queries)
        return search(self, queries, **more)

    monkeypatch.setattr(BM25Retriever, "search", counted)
    assert not run.update()
    run_folder(folder, [session(store, 7, question=9, step=2)])
    assert run.update()
    assert asked == ["When was it opened, 9?"]


def test_without_an_index_it_is_unknown(folder, opened, asked, tmp_path, caplog):
    (group,) = asked(folder)("/api/runs/0/funnel")["groups"]
    assert group["counts"]["reach"] is None
    (run,) = opened(folder, index=tmp_path / "none")
    assert run.folder.index_file.is_file()
    assert str(tmp_path / "none") in caplog.text
