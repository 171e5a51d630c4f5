"""What a run wrote is kept: no files of others are overwritten, and a run resumes from what is
complete.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir, atomic_write
from docagent_rl.base.outputs import write_output
from docagent_rl.checkpoints.inspection import inspect
from docagent_rl.checkpoints.manifest import (
    CheckpointCheck,
    step_folder,
    step_folders,
    write_manifest,
)
from docagent_rl.checkpoints.resume import choose_checkpoint
from docagent_rl.checkpoints.retention import Retention
from docagent_rl.checks.preflight import check
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.runner import Runner, RunSettings
from docagent_rl.lab.tiny.demo import prepare_demo
from docagent_rl.lab.tiny.workspace import DemoPaths, Owner, claim
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.samples.parquet import write_parquet
from docagent_rl.samples.sample import Split
from docagent_rl.systems.vrag_rl.script import VragScript
from docagent_rl.training.trainer import archive
from docagent_rl.training.trainer.trackers import continue_trackers
from docagent_rl.watch import stopping
from docagent_rl.watch.processes import (
    RUN_VARIABLE,
    START_FILE,
    earlier_starts,
    end_leftovers,
    note_start,
    weights_of,
)
from tests.checkpoints.saved import cut, flip, save
from tests.documents.here import files_of
from tests.lab.agents.test_runner import Player, folder, questions
from tests.processes import ends
from tests.training.ranks import last_report
from tests.training.trainer.test_archive import HALF, trajectory

FULL = CheckpointCheck.FULL
VRAG = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture
def users(world, tmp_path, monkeypatch):
    """Return a workspace as a user makes it, with a warm-up of one step."""
    brief = {"short_steps": 1, "full_steps": 1, "pool": 2, "batch_size": 1}
    monkeypatch.setattr(VragScript, "warm_up", brief)
    paths = DemoPaths(tmp_path / "workspace")
    shutil.copytree(world.root / "store", paths.store)
    shutil.copytree(world.root / "index", paths.index)
    for split in (Split.TRAIN, Split.VAL):
        write_parquet(world.samples, paths.data(split))
    return paths


def checked(paths):
    config = composed_recipe(VRAG, ["+profile=cpu"])
    OmegaConf.update(config, "docagent.workspace", str(paths.workspace))
    return check(config)


def resumed(root, **changes) -> tuple[str, str | None]:
    """Return the mode and the folder from which verl is configured to resume."""
    config = composed_recipe(VRAG, ["+profile=cpu"])
    for key, value in {"trainer.default_local_dir": str(root), **changes}.items():
        OmegaConf.update(config, key, value)
    choose_checkpoint(config, FULL)
    return config.trainer.resume_mode, config.trainer.resume_from_path


def test_the_demo_gives_a_users_workspace_a_tiny_model_and_nothing_else(users):
    before = files_of(users.workspace)
    checked(users)
    after = files_of(users.workspace)
    assert {name: after[name] for name in before} == before
    assert {name.split("/")[0] for name in after.keys() - before.keys()} == {"models"}


@pytest.mark.parametrize("missing", ["store", "index", "data"])
def test_the_demo_never_rewrites_a_workspace_that_is_not_its_own(users, missing):
    shutil.rmtree(users.workspace / missing)
    before = files_of(users.workspace)
    for attempt in (
        lambda: checked(users),
        lambda: prepare_demo(users.workspace),
        lambda: claim(users),
    ):
        with pytest.raises(UserError, match=str(users.workspace)):
            attempt()
    assert files_of(users.workspace) == before
    assert users.owner() is Owner.USER


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_damaged_checkpoint_gives_way_to_the_last_good_one_and_is_named(tmp_path, caplog, damage):
    for step in (1, 2):
        save(tmp_path, step)
    damage(save(tmp_path, 3) / "actor" / "model_world_size_1_rank_0.pt")
    assert resumed(tmp_path) == ("resume_path", str(tmp_path / "global_step_2"))
    assert "global_step_3" in caplog.text


def test_damage_alone_never_starts_a_run_from_the_beginning(tmp_path):
    flip(save(tmp_path, 1) / "data.pt")
    with pytest.raises(UserError, match="resume_mode=disable"):
        resumed(tmp_path)


def test_a_checkpoint_that_was_not_saved_to_its_end_is_not_taken(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2, check=None)
    (tmp_path / "global_step_2" / "data.pt").unlink()
    assert resumed(tmp_path) == ("resume_path", str(tmp_path / "global_step_1"))


def test_a_whole_checkpoint_is_there_at_any_time_while_others_are_saved(tmp_path):
    retention = Retention({"actor": 1})
    retention.add(save(tmp_path, 1))
    for step in (2, 3):
        retention.make_room(step_folder(tmp_path, step))
        assert any(inspect(path, FULL).usable for path in step_folders(tmp_path))
        retention.add(save(tmp_path, step))
    assert [path.name for path in step_folders(tmp_path)] == ["global_step_3"]


def test_files_of_a_user_in_a_checkpoint_outlive_it(tmp_path):
    retention = Retention({"actor": 1})
    retention.add(save(tmp_path, 1))
    (tmp_path / "global_step_1" / "merged").mkdir()
    write_manifest(tmp_path / "global_step_1", FULL)
    retention.add(save(tmp_path, 2))
    assert (tmp_path / "global_step_1" / "merged").is_dir()


def test_steps_that_are_done_again_are_set_aside_and_not_written_over(tmp_path):
    for step in (1, 2):
        archive.write_trajectories(tmp_path, step, [trajectory(number=step)])
        archive.write_metrics(tmp_path, step, {"a": step})
    aside = archive.supersede_steps(tmp_path, 1)
    assert archive.read_metrics(tmp_path, 2) is None
    assert archive.read_metrics(aside, 2) == {"a": 2}
    assert len(list(read_trajectories(archive.trajectory_file(aside, 2)))) == 1


def test_half_a_character_loses_no_step(tmp_path):
    broken = trajectory()
    broken.sample["question"] = broken.error = broken.turns[0].text = HALF
    path = archive.write_trajectories(tmp_path, 4, [broken, trajectory("z")])
    first, second = read_trajectories(path)
    assert first.turns[0].token_ids == broken.turns[0].token_ids
    assert second == trajectory("z")


def test_a_folder_in_which_a_driver_runs_is_refused(tmp_path, monkeypatch):
    note_start(tmp_path, "a")
    file = tmp_path / START_FILE
    monkeypatch.setattr("docagent_rl.watch.processes._began", lambda pid: "7")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"driver": 1, "began": "7"}))
    with pytest.raises(UserError, match=r"run_dir=.*process 1 "):
        earlier_starts(tmp_path)


def test_a_start_ends_what_earlier_starts_of_its_run_left_and_nothing_else():
    sleeper = (
        "import setproctitle, time; setproctitle.setproctitle('VLLM::EngineCore'); "
        "print(flush=True)\n"
    )
    left = []
    for run in ("mine-before", "somebody-elses"):
        environment = {**os.environ, RUN_VARIABLE: run, "SPT_NOENV": "1"}
        command = [sys.executable, "-c", f"{sleeper}time.sleep(600)"]
        left.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
        left[-1].stdout.readline()
    mine, other = left
    try:
        end_leftovers(["mine-before"])
        assert ends(mine.pid, within=60)
        assert other.poll() is None
    finally:
        for process in left:
            process.kill()
            process.wait()


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    atomic_write(tmp_path / "a", "old")
    with atomic_dir(tmp_path / "b") as made:
        (made / "x").write_text("old")
    with pytest.raises(UserError), atomic_dir(tmp_path / "b") as made:
        shutil.copytree(tmp_path / "gone", made / "x")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        atomic_write(tmp_path / "a", "new")
    assert files_of(tmp_path) == {"a": b"old", "b/x": b"old"}


def test_an_output_that_holds_something_else_is_replaced_when_asked_alone(tmp_path):
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(UserError, match=r"mine\.html"):
        write_output(tmp_path / "mine.html", "yours")
    assert (tmp_path / "mine.html").read_text() == "mine"
    write_output(tmp_path / "mine.html", "yours", force=True)


def test_a_run_of_an_agent_that_was_stopped_goes_on_to_the_same_file(tmp_path):
    def start(name, stop_at=None):
        heard = []

        def hear(trajectory):
            heard.append(trajectory)
            if len(heard) == stop_at:
                asyncio.current_task().cancel()

        runner = Runner(Player(), "none", folder(tmp_path / name), RunSettings(concurrency=3), hear)
        return asyncio.run(runner.run(questions(20)))

    start("whole")
    for stop_at in (3, 9):
        with pytest.raises(asyncio.CancelledError):
            start("stopped", stop_at)
    start("stopped")
    whole, stopped = (
        files_of(tmp_path / name)["trajectories.jsonl"] for name in ("whole", "stopped")
    )
    assert stopped == whole


def test_trajectories_of_another_run_are_not_gone_on_with(tmp_path):
    RunFolder(tmp_path).begin({"player": {"model": "a"}})
    with pytest.raises(UserError, match=r"player\.model"):
        RunFolder(tmp_path).begin({"player": {"model": "b"}})


def test_checkpoints_of_all_starts_count_and_the_one_gone_on_from_stays_until_another_is_whole(
    tmp_path,
):
    for step in range(1, 5):
        save(tmp_path, step)
    retention = Retention({"actor": 2})
    retention.adopt(tmp_path, 4)
    retention.make_room(step_folder(tmp_path, 5))
    assert inspect(step_folder(tmp_path, 4), FULL).usable
    retention.add(save(tmp_path, 5))
    assert [path.name for path in step_folders(tmp_path)] == ["global_step_5", "global_step_4"]


def test_a_run_that_sigterm_asks_to_end_has_a_status_for_requeueing(tmp_path, monkeypatch, capsys):
    store = {}
    monkeypatch.setattr(stopping.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(stopping, "put_value", lambda name, value=b"1": store.update({name: value}))
    monkeypatch.setattr(stopping, "_is_put", store.__contains__)
    before = signal.getsignal(signal.SIGTERM)
    asked = stopping.StopSignal(10.0, tmp_path)
    asked.listen()
    try:
        signal.raise_signal(signal.SIGTERM)
        assert asked.look() is None
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err.startswith("docagent-rl: SIGTERM: ")
    assert (list(store), asked.confirmed()) == (["stop"], False)
    stopping.StopRequest(10.0).confirm()
    assert asked.confirmed()
    assert stopping.REQUEUE == 75


def test_a_start_removes_the_memory_that_its_own_run_left_and_no_others():
    run = uuid4().hex[:12]
    mine, others = (Path("/dev/shm", f"{weights_of(each)}0") for each in (run, uuid4().hex[:12]))
    for file in (mine, others):
        file.touch()
    try:
        end_leftovers([run])
        assert (mine.exists(), others.exists()) == (False, True)
    finally:
        others.unlink()


def test_a_run_that_goes_on_continues_its_runs_of_trackers(tmp_path, monkeypatch):
    for name in ("WANDB_RUN_ID", "WANDB_RESUME", "MLFLOW_RUN_ID"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    (tmp_path / "trackers.json").write_text('{"wandb": "w1", "mlflow": "m1"}')
    continue_trackers(tmp_path)
    found = [os.environ[name] for name in ("WANDB_RUN_ID", "WANDB_RESUME", "MLFLOW_RUN_ID")]
    assert found == ["w1", "allow", "m1"]


def test_a_checkpoint_of_two_ranks_goes_on_with_one(tmp_path, warm_python):
    last_report(warm_python, "tests.guards.elastic", tmp_path, ranks=2)
    (tmp_path / "meeting").unlink(missing_ok=True)
    found = last_report(warm_python, "tests.guards.elastic", tmp_path, ranks=1)
    assert found["moments"] > 0
    assert found["differing"] == []
    assert found["plain"]
    assert found["moved"] > 1e-3
    assert found["apart"] < 1e-4
