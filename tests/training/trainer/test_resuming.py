from __future__ import annotations

import pytest
from omegaconf import OmegaConf

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


@pytest.mark.parametrize("step", [2, 4])
def test_a_validation_that_was_cut_off_is_made_up_for(run_dir, step):
    interrupt(run_dir, step)
    trainer = Trainer(run_dir, step)
    assert trainer.begun
    assert trainer.validations == [step]
    assert trainer.global_steps == step + 1
    whole = {"a": step, INTERRUPTED: 1.0, "val-core/x": 0.5}
    assert read_metrics(run_dir, step) == whole
    assert trainer.lines == [(step, {"val-core/x": 0.5}), (step, whole)]


def test_steps_without_a_validation_get_their_line_alone(run_dir):
    interrupt(run_dir, 3)
    trainer = Trainer(run_dir, 3)
    assert trainer.validations == []
    assert trainer.lines == [(3, {"a": 3.0, INTERRUPTED: 1.0})]


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
