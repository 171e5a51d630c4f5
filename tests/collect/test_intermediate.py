"""What another model fails, from its run."""

from __future__ import annotations

import pytest

from docagent_rl.collect.filters import Failed, Format
from docagent_rl.collect.intermediate import check_runs, with_failures
from docagent_rl.errors import UserError
from docagent_rl.play.player import new_trajectory
from docagent_rl.records.record import Record, Split
from docagent_rl.rollout.trajectory import Status, Trajectory
from tests.collect.cases import case


def session(question: str, number: int, outcome: float, *, masked: bool = False) -> Trajectory:
    record = Record(question, "viddoseek", Split.TRAIN, "d", "Which?", ("blue",))
    played = new_trajectory(record, number, "unidoc_rl")
    played.status = Status.MASKED.value if masked else Status.FINISHED.value
    played.metrics["reward/outcome"] = outcome
    return played


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "sessions.jsonl"
    sessions = [
        session("solved", 0, 1.0),
        session("failed", 0, 0.0),
        session("at times", 0, 0.0),
        session("at times", 1, 1.0),
        session("not played", 0, 0.0, masked=True),
    ]
    path.write_text("".join(each.to_json() + "\n" for each in sessions))
    return path


def test_of_other_datasets_what_the_model_fails_is_kept(run):
    rule = Failed(run=run)
    cases = [case("solved"), case("failed"), case("at times"), case("slide", dataset="slidevqa")]
    found = with_failures(cases, [Format(), rule])
    assert [each.failed for each in found] == [False, True, False, False]
    assert rule.keep(found) == [False, True, False, True]
    assert Failed(run=run, exempt=("made",)).keep(found) == [True, True, True, False]


def test_a_question_that_the_model_did_not_play_is_told(run):
    with pytest.raises(UserError, match=r"\b1\b.*'not played'"):
        with_failures([case("solved"), case("not played")], [Failed(run=run)])


def test_without_the_filter_nothing_is_read():
    cases = [case()]
    assert with_failures(cases, [Format()]) == cases


def test_what_is_missing_is_told_at_once(run, tmp_path):
    with pytest.raises(UserError, match=tmp_path.name):
        check_runs([Failed(run=tmp_path)])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match=r"empty\.jsonl"):
        check_runs([Format(), Failed(run=tmp_path / "empty.jsonl")])
    with pytest.raises(UserError):
        with_failures([case()], [Failed(run=run), Failed(run=run)])
    check_runs([Failed(run=run)])
