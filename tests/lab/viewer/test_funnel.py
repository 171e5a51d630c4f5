from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.funnel import counts_of, funnel_figure, lost_at
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rollout.evidence import Evidence, Stage
from tests.viewer_runs import run_folder, trajectory

FUNNEL = "/api/runs/0/funnel"


@pytest.fixture
def lossy(tmp_path, store, asked):
    """One is right, one wrong; one guesses and one gives up unseen; one never answers; one is masked."""
    guess, mute = trajectory(store, 2, question=3), trajectory(store, 3, step=2, reward=0.0)
    blind = trajectory(store, 6, step=2, reward=0.0)
    guess.turns, blind.turns, mute.turns = guess.turns[-1:], blind.turns[-1:], mute.turns[:-1]
    unknown = trajectory(store, 5, step=2)
    unknown.sample["evidence_pages"], unknown.sample["evidence_boxes"] = [], {}
    masked = trajectory(store, 4, status="masked")
    given = [trajectory(store, 0), trajectory(store, 1, reward=0.0), guess, blind, mute, masked, unknown]
    return asked(run_folder(tmp_path / "run", given))


def test_each_loss_names_its_trajectories(lossy):
    (group,) = lossy(FUNNEL)["groups"]
    counts = {"all": 5, "sought": 3, "reach": 3, "found": 3, "shown": 3, "looked": 3, "answered": 2}
    assert group["counts"] == counts | {"kept": 2, "right": 2}
    assert (group["without"], group["played"], group["right"], group["guessed"]) == (2, 6, 3, 1)
    assert group["branches"]["zoomed"] == {"trajectories": 3, "right": 1}
    for stage, missing in (("sought", 6), ("answered", 3), ("right", 1)):
        (number,) = group["lost"][stage]
        assert lossy(f"/api/runs/0/trajectories/{number}")["number"] == missing
        rows = lossy(f"/api/runs/0/trajectories?{group['filters'][stage]}")["rows"]
        assert [row["id"] for row in rows] == [number]
    assert sum(group["lost_counts"].values()) == 3


def test_it_is_counted_apart_and_under_filters(lossy):
    by_step = {group["key"]: group["counts"]["all"] for group in lossy(f"{FUNNEL}?by=step")["groups"]}
    assert by_step == {"1": 3, "2": 2}
    assert [group["key"] for group in lossy(f"{FUNNEL}?by=kind&step=1")["groups"]] == ["Chart"]
    with pytest.raises(UserError, match="by='colour'"):
        lossy(f"{FUNNEL}?by=colour")


def test_reach_counts_where_it_is_known_of_all():
    known = [(1, Evidence(Stage.SOUGHT, False, False)), (2, Evidence(Stage.REACH, True, False)),
             (3, Evidence(Stage.RIGHT, None, True))]  # fmt: skip
    counts = counts_of(evidence for _, evidence in known)
    assert (counts["reach"], counts["found"]) == (2, 1)
    assert lost_at(known, counts)["reach"] == [1]
    assert lost_at(known, counts)["found"] == [2]
    assert counts_of([*(e for _, e in known), Evidence(Stage.SOUGHT, None, False)])["reach"] is None


@pytest.fixture
def drawn(tmp_path, store, asked):
    made = [trajectory(store, 0), trajectory(store, 1, reward=0.0), trajectory(store, 0, step=2)]
    for each in made[:2]:
        each.sample["dataset"] = "<b>$x$</b> & \x1b"
    ask = asked(run_folder(tmp_path / "run", made))

    def texts(query="", by="none"):
        svg = funnel_figure(ask(f"/api/runs/0/funnel?{query}"), by)
        if by == "dataset":
            assert svg == funnel_figure(ask(f"/api/runs/0/funnel?{query}"), by)
        return [each.text for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]

    return texts


def test_stages_counts_and_steps_are_drawn_and_names_are_texts(drawn):
    found = drawn()
    assert {"questions", "found", "looked at", "right", "all (3)"} <= set(found)
    assert (found.count("3"), found.count("2")) == (8, 1)
    assert {"step", "found", "right"} <= set(drawn("by=step", "step"))
    assert "<b>$x$</b> & \\x1b (2)" in drawn("by=dataset", "dataset")
    with pytest.raises(UserError, match="funnel"):
        drawn("step=9")


@pytest.fixture
def index(store, tmp_path):
    BM25Retriever.build(store).save(tmp_path / "words")
    return tmp_path / "words"


@pytest.fixture
def folder(tmp_path, store):
    """A question that names its page, one that names another, one without evidence, one that asked itself."""
    made = []
    for number, question in enumerate(("Where is pagek3?", "Where is pagek5?", "pagek3?", "Say pagek9!"), 1):
        one = trajectory(store, 0, question=number)
        one.sample["question"] = question
        search, *_, answer = one.turns
        search.info["effect"], search.observation, search.searches[0]["hits"] = {}, [], [["K#2", 1.0]]
        one.turns, one.outcome = [search, answer], 0.0
        made.append(one)
    made[2].sample["evidence_pages"] = []
    made[3].turns, made[3].outcome = trajectory(store).turns, 1.0
    made[3].turns[0].searches[0] |= {"query": "say PAGEK9", "top_k": 1, "doc_id": "K"}
    return run_folder(tmp_path / "run", made)


def test_questions_are_asked_of_the_index(folder, index, opened, asked):
    opened(folder, index=index)
    ask = asked(folder)
    rows = ask("/api/runs/0/trajectories?sort=question")["rows"]
    stages = {row["question_id"]: row["stage"] for row in rows}
    assert stages == {"q1": "reach", "q2": "sought", "q3": None, "q4": "right"}
    (group,) = ask("/api/runs/0/funnel")["groups"]
    assert (group["counts"]["all"], group["counts"]["reach"], group["counts"]["found"]) == (3, 2, 1)
    assert group["filters"]["found"] == "stage=reach&right=0"
    (number,) = group["lost"]["found"]
    assert ask(f"/api/runs/0/trajectories/{number}")["stage"] == "reach"


def test_only_what_is_new_is_asked(folder, store, index, opened, monkeypatch):
    (run,) = opened(folder, index=index)
    asked, search = [], BM25Retriever.search

    def counted(self, queries, **more):
        asked.extend(queries)
        return search(self, queries, **more)

    monkeypatch.setattr(BM25Retriever, "search", counted)
    assert not run.update()
    run_folder(folder, [trajectory(store, 7, question=9, step=2)])
    assert run.update()
    assert asked == ["When was it opened, 9?"]


def test_without_an_index_it_is_unknown(folder, opened, asked, tmp_path, caplog):
    (group,) = asked(folder)("/api/runs/0/funnel")["groups"]
    assert group["counts"]["reach"] is None
    (run,) = opened(folder, index=tmp_path / "none")
    assert run.folder.index_file.is_file()
    assert str(tmp_path / "none") in caplog.text
