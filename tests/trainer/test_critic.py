from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import ray
from verl.single_controller.base.decorator import MAGIC_ATTR
from verl.trainer.ppo.utils import Role
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.trainer.critic import CriticWorker, install_critic


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict:
    """Updates in verl's engine, with a learning rate of 0."""
    folder = tmp_path_factory.mktemp("critic")
    worker = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    worker |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "DIST_INIT_METHOD": f"file://{folder}/meeting"}
    worker |= {"VERL_PLATFORM": "cpu", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.trainer.critic_engine", str(folder)],
        env={**os.environ, **worker},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("which", ["all", "some"])
def test_the_loss_is_the_mean_over_tokens_with_a_target(report, which):
    assert report[which]["critic/vf_loss"] == pytest.approx(report[which]["expected"], rel=1e-5)


def test_returns_elsewhere_are_not_seen(report):
    assert report["all"]["critic/vf_loss"] != pytest.approx(report["some"]["critic/vf_loss"], rel=1e-3)
    for name in ("critic/vf_loss", "grad_norm"):
        assert report["noise elsewhere"][name] == pytest.approx(report["some"][name], rel=1e-6)


def test_the_critics_worker_is_replaced_and_no_other():
    mapping = {Role.ActorRolloutRef: ray.remote(ActorRolloutRefWorker)}
    before = dict(mapping)
    install_critic(mapping)
    assert mapping == before
    mapping[Role.Critic] = ray.remote(TrainingWorker)
    install_critic(mapping)
    assert mapping.pop(Role.Critic).__ray_actor_class__ is CriticWorker
    assert mapping == before


def test_the_worker_keeps_what_verl_calls_from_afar():
    for name in dir(TrainingWorker):
        theirs, ours = (called(getattr(kind, name)) for kind in (TrainingWorker, CriticWorker))
        assert ours == theirs, name


def called(method: object) -> dict | None:
    """How verl sends a method its arguments; partial functions compare by identity."""
    registered = getattr(method, MAGIC_ATTR, None)
    if registered is None or not isinstance(registered["dispatch_mode"], dict):
        return registered
    mode = {name: (p.func, p.args) for name, p in registered["dispatch_mode"].items()}
    return registered | {"dispatch_mode": mode}
