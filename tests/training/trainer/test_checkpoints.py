"""Checkpoints that verl's own `_save_checkpoint` writes, and runs that resume from them."""

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.inspection import CheckpointState, inspect
from docagent_rl.checkpoints.manifest import (
    MANIFEST,
    CheckpointCheck,
    read_tracker,
    step_folder,
    step_folders,
    step_of,
)
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.training.trainer.archive import (
    INTERRUPTED,
    read_metrics,
    write_metrics,
    write_trajectories,
)
from docagent_rl.training.trainer.base import Background
from docagent_rl.training.trainer.checkpoints import CheckpointsMixin
from docagent_rl.training.trainer.modes import DocAgentSync
from tests.checkpoints.saved import save_part


class KilledError(RuntimeError):
    pass


class Worker:
    """A worker that saves a part, and may end the run while it saves."""

    def __init__(self, root):
        self.root, self.asked, self.last = root, [], None

    def save_checkpoint(self, path, remote, step, max_ckpt_to_keep):
        self.asked.append((step, max_ckpt_to_keep, read_tracker(self.root)))
        save_part(self.root / path, seed=step)
        if step == self.last:
            raise KilledError


class Told(CheckpointCallback):
    """A callback that records, for each saved step, whether its checkpoint is complete and which
    step the tracker names.
    """

    calls = ()

    def on_save(self, trainer, global_step, checkpoint_dir, async_save=False, **_):
        root = trainer.actor_rollout_wg.root
        self.calls = (
            *self.calls,
            (global_step, async_save, state(root, global_step), read_tracker(root)),
        )


@pytest.fixture
def make(tmp_path, recipe):
    def trainer(*values):
        made = object.__new__(DocAgentSync)
        made.config = recipe(
            "alden_qwen2_5_vl_7b", f"trainer.default_local_dir={tmp_path}", *values
        )
        made.trainer_mode, made.use_critic = "sync", True
        made.docagent = DocAgentConfig.parse(plain_section(made.config.docagent))
        made.actor_rollout_wg, made.critic_wg = Worker(tmp_path), Worker(tmp_path)
        made.train_dataloader = StatefulDataLoader(list(range(10)))
        made.checkpoint_callback = Told()
        return made

    return trainer


def save(trainer, *steps, killed_in=None):
    """Save steps; the run may be killed in the critic's part of a step."""
    trainer.critic_wg.last = killed_in
    for trainer.global_steps in steps:
        if trainer.global_steps == killed_in:
            with pytest.raises(KilledError):
                trainer._save_checkpoint()
        else:
            trainer._save_checkpoint()


def state(root, step):
    return inspect(step_folder(root, step), CheckpointCheck.FULL, ("actor", "critic")).state


def left(root):
    return [step_of(path) for path in step_folders(root)]


def test_the_tracker_names_what_is_whole(make, tmp_path):
    trainer = make()
    before = OmegaConf.to_yaml(trainer.config)
    save(trainer, 1, 2, 3)
    assert OmegaConf.to_yaml(trainer.config) == before
    assert trainer.actor_rollout_wg.asked == [(1, None, None), (2, None, 1), (3, None, 2)]
    assert trainer.critic_wg.asked == trainer.actor_rollout_wg.asked
    assert trainer.checkpoint_callback.calls == tuple(
        (n, False, CheckpointState.WHOLE, n) for n in (1, 2, 3)
    )
    assert left(tmp_path) == [3, 2]


def test_with_one_to_keep_the_older_goes_when_the_newer_is_whole(make, tmp_path):
    trainer = make("trainer.max_actor_ckpt_to_keep=1", "trainer.max_critic_ckpt_to_keep=1")
    save(trainer, 1, 2, killed_in=2)
    assert read_tracker(tmp_path) == 1
    assert (state(tmp_path, 1), state(tmp_path, 2)) == (
        CheckpointState.WHOLE,
        CheckpointState.UNFINISHED,
    )
    save(trainer, 2)
    assert left(tmp_path) == [2]
    save(trainer, 2, killed_in=2)  # again: it is not whole meanwhile
    assert not (step_folder(tmp_path, 2) / MANIFEST).exists()


@pytest.mark.parametrize(("best", "kept"), [("true", [4, 3, 1]), ("false", [4, 3])])
def test_the_best_by_validation_stays_beside_the_last(make, tmp_path, best, kept):
    trainer = make(f"docagent.keep_best={best}")
    for step, score in enumerate([0.6, 0.2, 0.4, 0.5], 1):
        save(trainer, step)
        core = {f"val-core/{source}/reward/mean@1": score for source in "ab"}
        trainer._rate_checkpoint({**core, "val-aux/a/reward/std": 9 - score})
    trainer._rate_checkpoint({})
    assert left(tmp_path) == kept


def test_without_checks_verl_saves_as_ever(make, tmp_path):
    trainer = make("docagent.checkpoint_check='off'")
    save(trainer, 1)
    assert trainer.actor_rollout_wg.asked == [(1, 2, None)]
    assert read_tracker(tmp_path) == 1
    assert not (step_folder(tmp_path, 1) / MANIFEST).exists()


PLAIN = {"test_freq": 2, "val_before_train": False, "val_only": False}


class Loop:
    """A loop in the order of verl's `fit`, with nothing to train."""

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


class Trainer(CheckpointsMixin, Loop):
    total_training_steps = 4

    def __init__(self, run_dir, step, **trainer):
        self.docagent = SimpleNamespace(run_dir=run_dir)
        self.global_steps, self.logger = step, SimpleNamespace(log=self.log, logger={})
        self.config = OmegaConf.create({"trainer": PLAIN | trainer})
        self.lines, self.validations, self.begun, self._files = [], [], False, Background()
        self.fit(None)


@pytest.fixture
def run_dir(tmp_path):
    """Return a run of four steps, which may be interrupted after steps whose checkpoints are
    saved.
    """
    for step in range(1, 5):
        write_trajectories(tmp_path, step, [])
        write_metrics(tmp_path, step, {"a": float(step)})
    return tmp_path


def interrupt(run_dir, step):
    write_metrics(run_dir, step, {"a": float(step), INTERRUPTED: 1.0})


@pytest.mark.parametrize(("step", "validated"), [(2, True), (4, True), (3, False)])
def test_a_validation_that_was_cut_off_is_made_up_for(run_dir, step, validated):
    """Steps without a validation get only their line."""
    interrupt(run_dir, step)
    trainer = Trainer(run_dir, step)
    assert (trainer.begun, trainer.global_steps) == (True, step + 1)
    assert trainer.validations == [step] * validated
    values = {"val-core/x": 0.5} if validated else {}
    whole = {"a": step, INTERRUPTED: 1.0} | values
    assert read_metrics(run_dir, step) == whole
    assert trainer.lines == [(step, values), (step, whole)][not validated :]


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


def test_a_failure_is_raised_once_where_it_is_waited_for():
    def fail():
        raise UserError("disk_7")

    background = Background()
    background.start(fail)
    with pytest.raises(UserError, match="disk_7"):
        background.start(lambda: None)
    background.wait()
