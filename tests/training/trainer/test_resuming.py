from __future__ import annotations

import threading

import pytest
from omegaconf import OmegaConf

from docagent_rl.errors import UserError
from docagent_rl.training.trainer.archive import INTERRUPTED, read_metrics, write_metrics, write_trajectories
from docagent_rl.training.trainer.background import Background
from docagent_rl.training.trainer.resuming import ResumingMixin

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


def test_a_step_that_was_reported_is_left_alone(run_dir, caplog):
    write_metrics(run_dir, 4, {"val-core/x": 0.1}, validation=True)
    trainer = Trainer(run_dir, 4)
    assert trainer.validations == trainer.lines == []
    assert read_metrics(run_dir, 4) == {"a": 4.0}
    assert " 4 " in caplog.text


def test_a_run_from_the_beginning_has_nothing_to_make_up_for(tmp_path, caplog):
    trainer = Trainer(tmp_path, 0)
    assert trainer.begun
    assert trainer.validations == trainer.lines == caplog.records == []


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
