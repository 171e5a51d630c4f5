"""Files of a run's steps."""

import json

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.credit import write_credit
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn, read_trajectories
from docagent_rl.training.trainer import archive

HALF = "half \ud83d of it"


def trajectory(question="q", number=0):
    turns = [
        TrajectoryTurn("a", "end_of_turn", [1, 2], [-0.1, -0.2]),
        TrajectoryTurn("b", "truncated", [3], [-0.3]),
    ]
    return Trajectory("u", number, 4, "train", {"question_id": question}, "vrag_rl", turns=turns)


def test_round_trip_in_a_stable_order(tmp_path):
    trajectories = [trajectory("b", 0), trajectory("a", 1), trajectory("a", 0)]
    path = archive.write_trajectories(tmp_path, 4, trajectories)
    assert path == archive.trajectory_file(tmp_path, 4) == tmp_path / "trajectories" / "4.jsonl"
    assert list(read_trajectories(path)) == [trajectories[2], trajectories[1], trajectories[0]]
    archive.write_trajectories(tmp_path, 4, trajectories[:1])
    assert len(list(read_trajectories(path))) == 1
    assert (
        archive.write_trajectories(tmp_path, 0, [trajectory()], validation=True).name
        == "val-0.jsonl"
    )


def test_unreadable_lines_are_named(tmp_path):
    path = archive.write_trajectories(tmp_path, 1, [trajectory()])
    path.write_text(path.read_text() + '{"version": 1, "uid"')
    with pytest.raises(UserError, match=r"1\.jsonl.* 2\b"):
        list(read_trajectories(path))
    with pytest.raises(UserError, match=r"none\.jsonl"):
        list(read_trajectories(path.with_name("none.jsonl")))


def test_half_a_character_loses_no_step(tmp_path):
    """It may come from a document, a service or a user's system, and be anywhere."""
    broken = trajectory()
    broken.sample["question"] = broken.error = broken.text = broken.turns[0].text = HALF
    broken.turns[0].info = {"query": HALF, HALF: [HALF]}
    broken.turns[0].observation = [{"role": "user", "parts": [{"text": HALF}]}]
    broken.to_json().encode("utf-8")
    first, second = read_trajectories(
        archive.write_trajectories(tmp_path, 4, [broken, trajectory("z")])
    )
    assert first.turns[0].info == {"query": "half ? of it", "half ? of it": ["half ? of it"]}
    assert first.turns[0].token_ids == broken.turns[0].token_ids
    assert second == trajectory("z")
    given = {f"docagent/masked/{HALF}": 1, "b": np.float32(0.5), "text": "left out"}
    found = json.loads(archive.write_metrics(tmp_path, 4, given).read_text())
    assert found == {f"docagent/masked/{HALF}": 1.0, "b": 0.5}


def test_trainer_log_probs_are_split_over_turns():
    made = trajectory()
    split = archive.turn_log_probs(TrajectoryDigest.of(made), {0: np.array([-1.0, -2.0, -3.0])})
    assert [values.tolist() for values in split] == [[-1.0, -2.0], [-3.0]]
    with pytest.raises(ValueError, match=r"3.*2"):
        archive.turn_log_probs(TrajectoryDigest.of(made), {0: np.array([-1.0, -2.0])})
    made.turns[0].row = -1  # turns of other rows have none
    none, last = archive.turn_log_probs(TrajectoryDigest.of(made), {0: np.array([-3.0])})
    assert none is None
    assert last.tolist() == [-3.0]


def test_files_of_steps_that_are_done_again_are_set_aside(tmp_path):
    for step in (1, 2, 3):
        archive.write_trajectories(tmp_path, step, [trajectory(number=step)])
        archive.write_metrics(tmp_path, step, {"a": step})
        write_credit(tmp_path, step, "grpo", [])
    for step in (0, 2, 3):
        archive.write_metrics(tmp_path, step, {"a": step}, validation=True)
    (tmp_path / "metrics" / "notes.json").write_text("{}")
    first, second = (tmp_path / "superseded" / name for name in "12")
    assert archive.supersede_steps(tmp_path, 3) is None
    assert archive.supersede_steps(tmp_path, 2) == first
    kept = sorted(path.name for path in (tmp_path / "metrics").iterdir())
    assert kept == ["1.json", "2.json", "notes.json", "val-0.json", "val-2.json"]
    assert [path.name for path in sorted((first / "credit").iterdir())] == ["3.parquet"]
    assert not archive.trajectory_file(tmp_path, 3).exists()
    assert archive.read_metrics(tmp_path, 3) is None
    archive.write_metrics(tmp_path, 3, {"a": 33})
    assert archive.supersede_steps(tmp_path, 0) == second
    assert (archive.read_metrics(first, 3), archive.read_metrics(second, 3)) == (
        {"a": 3},
        {"a": 33},
    )
    assert [path.name for path in (tmp_path / "metrics").iterdir()] == ["notes.json"]
