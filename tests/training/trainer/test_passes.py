"""Fields and images of rows in the passes of the trainer."""

from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from docagent_rl.training.trainer.passes import NamedImagesMixin, may_name


@pytest.mark.parametrize(
    ("mode", "skip", "expected"),
    [
        ("sync", {}, True),
        ("sync", {"rollout_tq": {"enable": False}}, True),
        ("sync", {"rollout_tq": {"enable": True}}, False),
        ("colocate_async", {}, False),
    ],
)
def test_rows_that_outlive_a_run_hold_their_images(mode, skip, expected):
    assert may_name(OmegaConf.create({"skip": skip}), mode) is expected


RELEASED = ["a_b_0", "a_b_1", "pad_0"]


class Verl:
    def __init__(self, mode):
        self.verl_mode, self.config = mode, OmegaConf.create({})

    def fit(self, manager):
        self.agent_loop_manager = manager

    def step(self, metrics, timing_raw):
        self.agent_loop_manager.log.append("step")
        return SimpleNamespace(keys=["a_b_0_0", "a_b_0_1", "a_b_1_0", "pad_0_0"])


class Trainer(NamedImagesMixin, Verl):
    pass


@pytest.mark.parametrize(
    ("mode", "ours", "log"),
    [
        ("sync", True, ["name", "step", RELEASED]),
        ("separate_async", True, ["step", RELEASED]),
        ("sync", False, ["step"]),
    ],
)
def test_the_trajectories_of_a_step_are_released_when_it_ends(mode, ours, log):
    trainer, manager = Trainer(mode), SimpleNamespace(log=[])
    if ours:
        manager.name_images = lambda: manager.log.append("name")
        manager.release_images = manager.log.append
    trainer.release_images(["early_0_0"])  # there is no manager yet
    trainer.fit(manager)
    trainer.step({}, {})
    assert manager.log == log
