from __future__ import annotations

import resource
import shutil
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks import machine
from docagent_rl.checks.check import refuse_for
from docagent_rl.checks.machine import check_folders, check_shared_memory

BUCKET = 64


@pytest.fixture
def config(tmp_path):
    def make(run_dir=tmp_path / "run"):
        engine = {"checkpoint_engine": {"update_weights_bucket_megabytes": BUCKET}}
        return OmegaConf.create(
            {
                "docagent": {"run_dir": str(run_dir)},
                "trainer": {"default_local_dir": str(tmp_path / "checkpoints")},
                "actor_rollout_ref": {"rollout": engine},
            }
        )

    return make


def test_folders_that_can_be_written_stay_as_they_are_and_one_under_a_file_is_refused(config, tmp_path):
    check_folders(config(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"docagent\.run_dir=.*file/run .*file is a file"):
        check_folders(config(tmp_path / "file" / "run"))


def test_a_full_disk_is_refused(config, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(UserError, match=r"run .*too large"):
            check_folders(config())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("megabytes", "cpu", "refused"), [(63, True, True), (64, True, False), (0, False, False)]
)
def test_shared_memory_on_the_cpu_has_to_hold_a_bucket(config, monkeypatch, megabytes, cpu, refused):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=megabytes << 20))
    monkeypatch.setattr(machine, "is_cpu_platform", lambda: cpu)
    message = r"/dev/shm .*63 MB.*update_weights_bucket_megabytes=64"
    with pytest.raises(UserError, match=message) if refused else nullcontext():
        refuse_for(check_shared_memory(config()))
