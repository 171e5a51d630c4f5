"""What another model fails, from its run."""

from __future__ import annotations

import pytest

from docagent_rl.collect.filters import Failed, Format
from docagent_rl.collect.intermediate import check_runs, with_failures
from docagent_rl.errors import UserError
from docagent_rl.play.player import new_trajectory
from docagent_rl.records.record import Record, Split
from docagent_rl.rollout.trajectory import Status
from tests.collect.cases import case

OUTCOMES = [("solved", 1.0), ("failed", 0.0), ("at times", 0.0), ("at times", 1.0), ("not played", None)]


@pytest.fixture
def run(tmp_path):
    lines = []
    for number, (question, outcome) in enumerate(OUTCOMES):
        record = Record(question, "viddoseek", Split.TRAIN, "d", "Which?", ("blue",))
        played = new_trajectory(record, number, "unidoc_rl")
        played.status = (Status.MASKED if outcome is None else Status.FINISHED).value
        played.metrics["reward/outcome"] = outcome or 0.0
        lines.append(played.to_json() + "\n")
    (tmp_path / "sessions.jsonl").write_text("".join(lines))
    return tmp_path / "sessions.jsonl"


def test_of_other_datasets_what_the_model_fails_is_kept(run):
    rule = Failed(run=run)
    cases = [case("solved"), case("failed"), case("at times"), case("slide", dataset="slidevqa")]
    found = with_failures(cases, [Format(), rule])
    assert [each.failed for each in found] == [False, True, False, False]
    assert rule.keep(found) == [False, True, False, True]
    assert Failed(run=run, exempt=("made",)).keep(found) == [True, True, True, False]
    # without the filter nothing is read
    assert with_failures(cases, [Format()]) == cases


def test_what_is_missing_is_told_at_once(run, tmp_path):
    with pytest.raises(UserError, match=r"\b1\b.*'not played'"):
        with_failures([case("solved"), case("not played")], [Failed(run=run)])
    with pytest.raises(UserError):
        with_failures([case()], [Failed(run=run), Failed(run=run)])
    (tmp_path / "empty.jsonl").write_text("")
    for name, missing in ((tmp_path.name, tmp_path), (r"empty\.jsonl", tmp_path / "empty.jsonl")):
        with pytest.raises(UserError, match=name):
            check_runs([Format(), Failed(run=missing)])
    check_runs([Failed(run=run)])
