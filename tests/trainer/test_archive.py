from __future__ import annotations

import json

import numpy as np
import pytest

from docagent_rl.errors import UserError
from docagent_rl.rollout.trajectory import Trajectory, TurnRecord, read_trajectories
from docagent_rl.trainer.archive import (
    attach_trainer_log_probs,
    trajectory_file,
    write_metrics,
    write_trajectories,
)


def session(question="q", number=0):
    turns = [TurnRecord("a", "end_of_turn", [1, 2], [-0.1, -0.2]), TurnRecord("b", "truncated", [3], [-0.3])]
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
    with pytest.raises(UserError, match=r"1\.jsonl, line 2"):
        list(read_trajectories(path))
    path.write_text(json.dumps({"version": 7}))
    with pytest.raises(UserError, match="version 7"):
        list(read_trajectories(path))
    with pytest.raises(UserError, match="no such trajectory file"):
        list(read_trajectories(tmp_path / "none.jsonl"))


def test_trainer_log_probs_are_split_over_turns():
    trajectory = session()
    attach_trainer_log_probs(trajectory, [-1.0, -2.0, -3.0])
    assert [t.trainer_log_probs for t in trajectory.turns] == [[-1.0, -2.0], [-3.0]]
    with pytest.raises(ValueError, match="sampled 3 tokens, its row holds 2"):
        attach_trainer_log_probs(trajectory, [-1.0, -2.0])


def test_metrics_are_plain_numbers(tmp_path):
    path = write_metrics(tmp_path, 2, {"b": np.float32(0.5), "a": 1, "text": "left out"})
    assert json.loads(path.read_text()) == {"a": 1.0, "b": 0.5}
