"""verl's own `_save_checkpoint`, with a worker that writes small files."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback

from docagent_rl.checkpoints.inspection import State, inspect
from docagent_rl.checkpoints.layout import read_tracker, step_folder, step_folders, step_of
from docagent_rl.checkpoints.manifest import MANIFEST, CheckpointCheck
from docagent_rl.checks.recipe_check import composed
from docagent_rl.config import DocAgentConfig
from docagent_rl.training.trainer.modes import DocAgentSync
from docagent_rl.training.trainer.saving import parts_only
from tests.checkpoints.saved import save_part


class KilledError(RuntimeError):
    pass


class Worker:
    """Saves a part; may end the run in it."""

    def __init__(self, root):
        self.root, self.asked, self.last = root, [], None

    def save_checkpoint(self, path, remote, step, max_ckpt_to_keep):
        self.asked.append((step, max_ckpt_to_keep, read_tracker(self.root)))
        save_part(self.root / path, seed=step)
        if step == self.last:
            raise KilledError


class Told(CheckpointCallback):
    def __init__(self, root):
        self.root, self.calls = root, []

    def on_save(self, trainer, global_step, checkpoint_dir, async_save=False, **_):
        verdict = inspect(step_folder(self.root, global_step), CheckpointCheck.FULL)
        self.calls.append((global_step, async_save, verdict.state, read_tracker(self.root)))


def trainer_in(root, *overrides):
    config = composed(
        "alden_qwen2_5_vl_7b", ["+profile=cpu", f"trainer.default_local_dir={root}", *overrides]
    )
    trainer = object.__new__(DocAgentSync)
    trainer.config, trainer.trainer_mode, trainer.use_critic = config, "sync", True
    trainer.docagent = DocAgentConfig.parse(OmegaConf.to_container(config.docagent, resolve=True))
    trainer.actor_rollout_wg, trainer.critic_wg = Worker(root), Worker(root)
    trainer.train_dataloader = StatefulDataLoader(list(range(10)))
    trainer.checkpoint_callback = Told(root)
    return trainer


def save(trainer, *steps):
    for trainer.global_steps in steps:
        trainer._save_checkpoint()


def test_the_tracker_names_what_is_whole(tmp_path, caplog):
    trainer = trainer_in(tmp_path)
    before = OmegaConf.to_yaml(trainer.config)
    save(trainer, 1, 2, 3)
    assert OmegaConf.to_yaml(trainer.config) == before
    assert trainer.actor_rollout_wg.asked == [(1, None, None), (2, None, 1), (3, None, 2)]
    assert trainer.critic_wg.asked == trainer.actor_rollout_wg.asked
    assert trainer.checkpoint_callback.calls == [(n, False, State.WHOLE, n) for n in (1, 2, 3)]
    assert [step_of(path) for path in step_folders(tmp_path)] == [3, 2]
    assert "async_save" not in caplog.text
    assert "global_step_3" in caplog.text


def test_with_one_to_keep_the_older_goes_when_the_newer_is_whole(tmp_path):
    keep = ("trainer.max_actor_ckpt_to_keep=1", "trainer.max_critic_ckpt_to_keep=1")
    trainer = trainer_in(tmp_path, *keep)
    save(trainer, 1)
    trainer.critic_wg.last = 2
    with pytest.raises(KilledError):
        save(trainer, 2)
    assert read_tracker(tmp_path) == 1
    assert inspect(step_folder(tmp_path, 1), CheckpointCheck.FULL, ("actor", "critic")).usable
    assert inspect(step_folder(tmp_path, 2), CheckpointCheck.FULL).state is State.UNFINISHED
    trainer.critic_wg.last = None
    save(trainer, 2)
    assert [step_of(path) for path in step_folders(tmp_path)] == [2]


@pytest.mark.parametrize(("best", "left"), [("true", [4, 3, 1]), ("false", [4, 3])])
def test_the_best_by_validation_stays_beside_the_last(tmp_path, best, left):
    trainer = trainer_in(tmp_path, f"docagent.keep_best={best}")
    for step, score in enumerate([0.6, 0.2, 0.4, 0.5], 1):
        save(trainer, step)
        core = {"val-core/a/reward/mean@1": score, "val-core/b/reward/mean@1": score}
        trainer._rate_checkpoint({**core, "val-aux/a/reward/std": 9 - score})
    trainer._rate_checkpoint({})
    assert [step_of(path) for path in step_folders(tmp_path)] == left


def test_a_checkpoint_that_is_saved_again_is_not_whole_meanwhile(tmp_path):
    trainer = trainer_in(tmp_path)
    save(trainer, 1, 2)
    trainer.critic_wg.last = 2
    with pytest.raises(KilledError):
        save(trainer, 2)
    assert not (step_folder(tmp_path, 2) / MANIFEST).exists()
    assert inspect(step_folder(tmp_path, 1), CheckpointCheck.FULL).state is State.WHOLE


def test_without_checks_verl_saves_as_ever(tmp_path):
    trainer = trainer_in(tmp_path, "docagent.checkpoint_check=off")
    save(trainer, 1)
    assert trainer.actor_rollout_wg.asked == [(1, 2, None)]
    assert read_tracker(tmp_path) == 1
    assert not (step_folder(tmp_path, 1) / MANIFEST).exists()


def test_keys_that_a_configuration_lacks_are_lacking_again(tmp_path):
    config = OmegaConf.create({"trainer": {}, "actor_rollout_ref": {"actor": {"checkpoint": {}}}})
    OmegaConf.set_struct(config, True)
    with parts_only(config):
        assert config.actor_rollout_ref.actor.checkpoint.async_save is True
    assert config == {"trainer": {}, "actor_rollout_ref": {"actor": {"checkpoint": {}}}}
    with pytest.raises(KilledError), parts_only(config):
        raise KilledError
    assert "async_save" not in config.actor_rollout_ref.actor.checkpoint
