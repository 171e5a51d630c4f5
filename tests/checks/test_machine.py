import logging
import resource
import shutil
import socket
from contextlib import closing, nullcontext
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks import machine
from docagent_rl.checks.check import refuse_for
from docagent_rl.checks.machine import (
    Attachment,
    attachment,
    check_cluster,
    check_folders,
    check_shared_memory,
    leave_out_own_ray,
)
from docagent_rl.checks.recipe_check import composed_recipe

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


def test_folders_that_can_be_written_stay_as_they_are_and_one_under_a_file_is_refused(
    config, tmp_path
):
    check_folders(config(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"docagent\.run_dir=.*file/run "):
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
def test_shared_memory_on_the_cpu_has_to_hold_a_bucket(
    config, monkeypatch, megabytes, cpu, refused
):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=megabytes << 20))
    monkeypatch.setattr(machine, "is_cpu_platform", lambda: cpu)
    message = r"/dev/shm .*63 MB.*update_weights_bucket_megabytes=64"
    with pytest.raises(UserError, match=message) if refused else nullcontext():
        refuse_for(check_shared_memory(config()))


RECIPE = "vrag_rl_qwen2_5_vl_7b"
SHARED = "docagent.workspace=/w"


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("DOCAGENT_WORKSPACE", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "ray"))
    monkeypatch.setattr(machine, "ANSWER_S", 0.2)  # what listens here says nothing


@pytest.fixture
def head():
    """Accept connections, as the head of a cluster does; yield the address."""
    with closing(socket.create_server(("", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def started(head, tmp_path):
    """Return the file that `ray start` leaves on a machine, as if it had been called before."""
    file = tmp_path / "ray" / "ray" / "ray_current_cluster"
    file.parent.mkdir(parents=True)
    file.write_text(head)
    return file


def ran(*overrides):
    return OmegaConf.unsafe_merge(composed_recipe(RECIPE), OmegaConf.from_dotlist(list(overrides)))


def checked(*overrides):
    refuse_for(check_cluster(ran(*overrides)))


def test_other_machines_would_look_for_a_relative_path_elsewhere(monkeypatch, head):
    assert attachment(ran()) is None
    checked()  # a run by itself
    monkeypatch.setenv("RAY_ADDRESS", head)
    checked(SHARED)
    with pytest.raises(UserError, match=r"^docagent\.workspace=workspace "):
        checked()


def test_several_nodes_need_one_ray(monkeypatch, head):
    several = ("trainer.nnodes=2", SHARED)
    with pytest.raises(UserError, match=r"trainer\.nnodes=2, .*ray start"):
        checked(*several)
    checked(*several, "ray_kwargs.ray_init.num_gpus=2")
    monkeypatch.setenv("RAY_ADDRESS", head)
    checked(*several)


def test_a_ray_left_on_this_machine_is_named(started, caplog):
    found = attachment(ran())
    assert (found.source, found.asked) == (str(started), False)
    with caplog.at_level(logging.WARNING):
        checked(SHARED)
    assert str(started) in caplog.text
    # a run that sizes its Ray does not fall into another
    with pytest.raises(UserError, match=r"ray_init\.num_gpus .*RAY_ADDRESS=local"):
        checked(SHARED, "ray_kwargs.ray_init.num_gpus=1")


def test_the_variable_goes_before_what_was_left(started, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert attachment(ran()) is None
    address = "192.0.2.7:6379"
    monkeypatch.setenv("RAY_ADDRESS", address)
    found = attachment(ran("ray_kwargs.ray_init.address=auto"))
    assert found == Attachment(address, f"RAY_ADDRESS={address}", asked=True)


def test_a_ray_that_has_ended_and_what_is_no_address(started, monkeypatch):
    with closing(socket.create_server(("", 0))) as server:
        port = server.getsockname()[1]
    started.write_text(f"127.0.0.1:{port}")
    with pytest.raises(UserError, match=rf"{started}\)"):
        checked(SHARED)
    monkeypatch.setenv("RAY_ADDRESS", "somewhere")
    with pytest.raises(UserError, match="RAY_ADDRESS=somewhere: "):
        checked(SHARED)


def test_the_profile_does_not_tell_a_running_ray_how_large_it_is(monkeypatch, head):
    config = composed_recipe(RECIPE, ["+profile=cpu"])
    leave_out_own_ray(config)
    assert config.ray_kwargs.ray_init.num_cpus == 16
    monkeypatch.setenv("RAY_ADDRESS", head)
    leave_out_own_ray(config)
    assert OmegaConf.to_container(config.ray_kwargs.ray_init).keys() == {"runtime_env"}
