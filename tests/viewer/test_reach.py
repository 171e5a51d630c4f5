from __future__ import annotations

import pytest

from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.viewer.folder import ViewedRun
from docagent_rl.viewer.runs import OpenRun, Places
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


def stages(ask):
    rows = ask("/api/runs/0/sessions?sort=question")["rows"]
    return {row["question_id"]: row["stage"] for row in rows}


def opened(folder, store, index):
    run = OpenRun(0, "run", ViewedRun(folder), Places(store.path, index=index))
    run.update()
    return run


def test_questions_are_asked_of_the_index(folder, store, index, asked):
    opened(folder, store, index)
    ask = asked(folder)
    assert stages(ask) == {"q1": "reach", "q2": "all", "q3": None, "q4": "right"}
    (group,) = ask("/api/runs/0/funnel")["groups"]
    assert (group["counts"]["all"], group["counts"]["reach"], group["counts"]["found"]) == (3, 2, 1)
    assert group["filters"]["found"] == "stage=reach"
    (number,) = group["lost"]["found"]
    assert ask(f"/api/runs/0/sessions/{number}")["stage"] == "reach"


def test_only_what_is_new_is_asked(folder, store, index, monkeypatch):
    run = opened(folder, store, index)
    asked = []
    search = BM25Retriever.search
    monkeypatch.setattr(
        BM25Retriever,
        "search",
        lambda self, queries, **more: asked.extend(queries) or search(self, queries, **more),
    )
    assert not run.update()
    run_folder(folder, [session(store, 7, question=9, step=2)])
    assert run.update()
    assert asked == ["When was it opened, 9?"]


def test_without_an_index_it_is_unknown(folder, asked):
    (group,) = asked(folder)("/api/runs/0/funnel")["groups"]
    assert group["counts"]["reach"] is None


def test_an_index_of_another_store_is_refused(folder, store, tmp_path):
    run = OpenRun(0, "run", ViewedRun(folder), Places(store.path, index=tmp_path / "none"))
    with pytest.raises(UserError):
        _ = run.retriever
