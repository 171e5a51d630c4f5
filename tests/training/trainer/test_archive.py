"""Files of a run's steps, and what a run that goes on does with them."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.credit import write_credit
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryLine, TrajectoryTurn, read_trajectories
from docagent_rl.training.trainer import archive
from docagent_rl.training.trainer.archive import INTERRUPTED, read_metrics, write_metrics, write_trajectories
from docagent_rl.training.trainer.background import Background
from docagent_rl.training.trainer.resuming import ResumingMixin

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
    assert archive.write_trajectories(tmp_path, 0, [trajectory()], validation=True).name == "val-0.jsonl"


def test_unreadable_lines_are_named(tmp_path):
    path = archive.write_trajectories(tmp_path, 1, [trajectory()])
    path.write_text(path.read_text() + '{"version": 1, "uid"')
    with pytest.raises(UserError, match=r"1\.jsonl.* 2\b"):
        list(read_trajectories(path))
    with pytest.raises(UserError, match=r"none\.jsonl"):
        list(read_trajectories(path.with_name("none.jsonl")))


def test_half_a_character_loses_no_step(tmp_path):
    """It may come from a document, a service or a system of the user's, and stand anywhere."""
    broken = trajectory()
    broken.sample["question"] = broken.error = broken.text = broken.turns[0].text = HALF
    broken.turns[0].info = {"query": HALF, HALF: [HALF]}
    broken.turns[0].observation = [{"role": "user", "parts": [{"text": HALF}]}]
    broken.to_json().encode("utf-8")
    first, second = read_trajectories(archive.write_trajectories(tmp_path, 4, [broken, trajectory("z")]))
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


def test_a_step_is_written_from_the_lines_of_its_trajectories(tmp_path):
    made = trajectory("q \u00e4 \ud83d")
    line, found = TrajectoryLine.of(made), TrajectoryDigest.of(made)
    pieces = archive.line_with_log_probs(found, line, {0: np.array([-1.0, -2.0, 3e-17])})
    (read,) = read_trajectories(archive.write_lines(tmp_path, 4, [(found, pieces)]))
    assert [turn.trainer_log_probs for turn in read.turns] == [[-1.0, -2.0], [3e-17]]
    assert (read.sample["question_id"], read.turns[0].log_probs) == ("q \u00e4 ?", [-0.1, -0.2])


def test_files_of_steps_that_are_done_again_are_set_aside(tmp_path):
    for step in (1, 2, 3):
        archive.write_trajectories(tmp_path, step, [trajectory(number=step)])
        archive.write_metrics(tmp_path, step, {"a": step})
        write_credit(tmp_path, step, "grpo", [])
    for step in (0, 2, 3):
        archive.write_metrics(tmp_path, step, {"a": step}, validation=True)
    (tmp_path / "metrics" / "notes.json").write_text("{}")
    first, second = (tmp_path / "superseded" / name for name in "12")
    assert archive.set_aside(tmp_path, 3) is None
    assert archive.set_aside(tmp_path, 2) == first
    kept = sorted(path.name for path in (tmp_path / "metrics").iterdir())
    assert kept == ["1.json", "2.json", "notes.json", "val-0.json", "val-2.json"]
    assert [path.name for path in sorted((first / "credit").iterdir())] == ["3.parquet"]
    assert not archive.trajectory_file(tmp_path, 3).exists()
    assert archive.read_metrics(tmp_path, 3) is None
    archive.write_metrics(tmp_path, 3, {"a": 33})
    assert archive.set_aside(tmp_path, 0) == second
    assert (archive.read_metrics(first, 3), archive.read_metrics(second, 3)) == ({"a": 3}, {"a": 33})
    assert [path.name for path in (tmp_path / "metrics").iterdir()] == ["notes.json"]


PLAIN = {"test_freq": 2, "val_before_train": False, "val_only": False}


class Loop:
    """The order of verl's `fit`, with nothing to train; it is its own logger."""

    def fit(self, manager):
        if self.config.trainer.val_before_train:
            self.log(self._validate(), self.global_steps)
        self.global_steps += 1
        self.on_train_begin()

    def on_train_begin(self):
        self.begun = True

    def on_validate_begin(self):
        self.validations.append(self.global_steps)

    def on_validate_end(self):
        pass

    def log(self, data, step):
        self.lines.append((step, dict(data)))

    def _validate(self):
        values = {"val-core/x": 0.5}
        write_metrics(self.run_dir, self.global_steps, values, validation=True)
        return values


class Trainer(ResumingMixin, Loop):
    total_training_steps = 4

    def __init__(self, run_dir, step, **trainer):
        self.run_dir, self.global_steps, self.logger = run_dir, step, self
        self.config = OmegaConf.create({"trainer": PLAIN | trainer})
        self.lines, self.validations, self.begun, self._files = [], [], False, Background()
        self.fit(None)


@pytest.fixture
def run_dir(tmp_path):
    """Four steps; those after which a checkpoint is saved may be interrupted."""
    for step in range(1, 5):
        write_trajectories(tmp_path, step, [])
        write_metrics(tmp_path, step, {"a": float(step)})
    return tmp_path


def interrupt(run_dir, step):
    write_metrics(run_dir, step, {"a": float(step), INTERRUPTED: 1.0})


@pytest.mark.parametrize(("step", "validated"), [(2, True), (4, True), (3, False)])
def test_a_validation_that_was_cut_off_is_made_up_for(run_dir, step, validated):
    """Steps without one get their line alone."""
    interrupt(run_dir, step)
    trainer = Trainer(run_dir, step)
    assert (trainer.begun, trainer.global_steps) == (True, step + 1)
    assert trainer.validations == [step] * validated
    values = {"val-core/x": 0.5} if validated else {}
    whole = {"a": step, INTERRUPTED: 1.0} | values
    assert read_metrics(run_dir, step) == whole
    assert trainer.lines == [(step, values), (step, whole)][not validated :]


def test_a_validation_before_the_first_step_counts(run_dir):
    interrupt(run_dir, 2)
    assert Trainer(run_dir, 2, val_before_train=True).validations == []
    assert read_metrics(run_dir, 2) == {"a": 2.0, INTERRUPTED: 1.0, "val-core/x": 0.5}


@pytest.mark.parametrize("step", [4, 0])
def test_a_step_that_was_reported_and_a_beginning_are_left_alone(run_dir, step):
    write_metrics(run_dir, 4, {"val-core/x": 0.1}, validation=True)
    trainer = Trainer(run_dir, step)
    assert trainer.begun
    assert trainer.validations == trainer.lines == []
    assert step == 0 or read_metrics(run_dir, 4) == {"a": 4.0}


def test_later_steps_are_set_aside_unless_the_run_validates_only(run_dir, caplog):
    Trainer(run_dir, 0, val_only=True)
    assert read_metrics(run_dir, 4) == {"a": 4.0}
    Trainer(run_dir, 3)
    assert read_metrics(run_dir, 4) is None
    assert str(run_dir / "superseded" / "1") in caplog.text
    assert read_metrics(run_dir / "superseded" / "1", 4) == {"a": 4.0}


def test_the_caller_goes_on_and_waits_where_it_asks_to():
    done, may_end, background = [], threading.Event(), Background()
    background.start(lambda: (may_end.wait(60), done.append(0)))
    assert done == []
    may_end.set()
    for number in range(1, 9):
        background.start(lambda number=number: done.append(number))
    background.settle()
    assert done == list(range(9))


def test_a_failure_is_raised_once_where_it_is_waited_for():
    def fail():
        raise UserError("disk_7")

    background = Background()
    background.start(fail)
    with pytest.raises(UserError, match="disk_7"):
        background.start(lambda: None)
    background.settle()
