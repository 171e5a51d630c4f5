from __future__ import annotations

import json

import numpy as np
import pytest

from docagent_rl.errors import UserError
from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.line import SessionLine
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, read_trajectories
from docagent_rl.training.trainer.archive import (
    line_with_log_probs,
    read_metrics,
    set_aside,
    trajectory_file,
    turn_log_probs,
    write_lines,
    write_metrics,
    write_trajectories,
)


def session(question="q", number=0):
    turns = [
        TrajectoryTurn("a", "end_of_turn", [1, 2], [-0.1, -0.2]),
        TrajectoryTurn("b", "truncated", [3], [-0.3]),
    ]
    return Trajectory("u", number, 4, "train", {"question_id": question}, "vrag_rl", turns=turns)


def test_round_trip_in_a_stable_order(tmp_path):
    sessions = [session("b", 0), session("a", 1), session("a", 0)]
    path = write_trajectories(tmp_path, 4, sessions)
    assert path == trajectory_file(tmp_path, 4) == tmp_path / "trajectories" / "4.jsonl"
    assert list(read_trajectories(path)) == [sessions[2], sessions[1], sessions[0]]
    write_trajectories(tmp_path, 4, sessions[:1])
    assert len(list(read_trajectories(path))) == 1


def test_validation_has_a_file_of_its_own(tmp_path):
    assert write_trajectories(tmp_path, 0, [session()], validation=True).name == "val-0.jsonl"


def test_unreadable_lines_are_named(tmp_path):
    path = write_trajectories(tmp_path, 1, [session()])
    path.write_text(path.read_text() + '{"version": 1, "uid"')
    with pytest.raises(UserError, match=r"1\.jsonl.* 2\b"):
        list(read_trajectories(path))
    path.write_text(json.dumps({"version": 7}))
    with pytest.raises(UserError, match="7"):
        list(read_trajectories(path))
    with pytest.raises(UserError, match=r"none\.jsonl"):
        list(read_trajectories(tmp_path / "none.jsonl"))


def test_half_a_character_loses_no_step(tmp_path):
    """It may come from a document, a service or a system of the user's, and stand anywhere."""
    half = "half \ud83d of it"
    broken = session()
    broken.record["question"] = broken.error = broken.text = half
    broken.turns[0].text = half
    broken.turns[0].info = {"query": half, half: [half]}
    broken.turns[0].observation = [{"role": "user", "parts": [{"text": half}]}]
    broken.to_json().encode("utf-8")
    read = list(read_trajectories(write_trajectories(tmp_path, 4, [broken, session("z")])))
    assert [trajectory.uid for trajectory in read] == ["u", "u"]
    assert read[0].turns[0].info == {"query": "half ? of it", "half ? of it": ["half ? of it"]}
    assert read[0].turns[0].token_ids == broken.turns[0].token_ids
    assert read[1] == session("z")
    metrics = write_metrics(tmp_path, 4, {f"docagent/masked/{half}": 1.0})
    assert json.loads(metrics.read_text()) == {f"docagent/masked/{half}": 1.0}


def test_trainer_log_probs_are_split_over_turns():
    found = SessionDigest.of(session())
    split = turn_log_probs(found, {0: np.array([-1.0, -2.0, -3.0])})
    assert [values.tolist() for values in split] == [[-1.0, -2.0], [-3.0]]
    with pytest.raises(ValueError, match=r"3.*2"):
        turn_log_probs(found, {0: np.array([-1.0, -2.0])})


def test_turns_of_other_rows_have_no_log_probs():
    made = session()
    made.turns[0].row = -1
    lone = turn_log_probs(SessionDigest.of(made), {0: np.array([-3.0])})
    assert lone[0] is None
    assert lone[1].tolist() == [-3.0]


def test_a_step_is_written_from_the_lines_of_its_sessions(tmp_path):
    made = session("q \u00e4 \ud83d")
    line, found = SessionLine.of(made), SessionDigest.of(made)
    pieces = line_with_log_probs(found, line, {0: np.array([-1.0, -2.0, 3e-17])})
    (read,) = read_trajectories(write_lines(tmp_path, 4, [(found, pieces)]))
    assert [turn.trainer_log_probs for turn in read.turns] == [[-1.0, -2.0], [3e-17]]
    assert read.record["question_id"] == "q \u00e4 ?"
    assert read.turns[0].log_probs == [-0.1, -0.2]


def test_metrics_are_plain_numbers(tmp_path):
    path = write_metrics(tmp_path, 2, {"b": np.float32(0.5), "a": 1, "text": "left out"})
    assert json.loads(path.read_text()) == {"a": 1.0, "b": 0.5}


def test_files_of_steps_that_are_done_again_are_set_aside(tmp_path):
    for step in (1, 2, 3):
        write_trajectories(tmp_path, step, [session(number=step)])
        write_metrics(tmp_path, step, {"a": step})
    for step in (0, 2, 3):
        write_metrics(tmp_path, step, {"a": step}, validation=True)
    (tmp_path / "metrics" / "notes.json").write_text("{}")
    assert set_aside(tmp_path, 3) is None
    assert set_aside(tmp_path, 2) == tmp_path / "superseded" / "1"
    kept = sorted(path.name for path in (tmp_path / "metrics").iterdir())
    assert kept == ["1.json", "2.json", "notes.json", "val-0.json", "val-2.json"]
    assert not trajectory_file(tmp_path, 3).exists()
    assert read_metrics(tmp_path / "superseded" / "1", 3) == {"a": 3}
    assert read_metrics(tmp_path, 3) is None
    write_metrics(tmp_path, 3, {"a": 33})
    assert set_aside(tmp_path, 0) == tmp_path / "superseded" / "2"
    assert read_metrics(tmp_path / "superseded" / "1", 3) == {"a": 3}
    assert read_metrics(tmp_path / "superseded" / "2", 3) == {"a": 33}
    assert [path.name for path in (tmp_path / "metrics").iterdir()] == ["notes.json"]
