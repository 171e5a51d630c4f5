"""The end of a run in which a part died."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
import ray
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf
from ray.core.generated.common_pb2 import ActorDiedErrorContext
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from docagent_rl.base.errors import UserError
from docagent_rl.config import WatchConfig
from docagent_rl.watch import run
from docagent_rl.watch.run import RunWatch, Watch
from tests.processes import ends
from tests.watch.conftest import until

LIMIT_S = 300


@pytest.mark.slow
def test_a_death_ends_the_run_with_one_error_and_nothing_is_left(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("run_app.py")), str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def watched():
        """Return the pids of the actor, its child and the trainer as soon as the watch has seen
        them.
        """
        assert process.poll() is None, process.stderr.read()
        files = tmp_path / "pids", tmp_path / "seen"
        pids, seen = (json.loads(file.read_text()) if file.exists() else [] for file in files)
        return pids if set(pids) <= set(seen) else []

    actor, *others = until(watched)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(actor, signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    (line,) = [line for line in said.splitlines() if line.startswith("docagent-rl: ")]
    assert f"AgentLoopWorker (process {actor} " in line
    assert "Traceback" not in said
    assert (tmp_path / "failure_traceback.txt").read_text()
    assert all(ends(pid, within=60) for pid in [*others, *(member.pid for member in family)])


DEATH = "WorkerDict (process 7 on 192.0.2.1) died: its node has died"


def unavailable():
    """Return the error that `ray.get` raises for a task that used an actor of a dead node."""
    cause = ActorUnavailableError("The actor is temporarily unavailable: no connection", b"\0" * 16)
    return RayTaskError("TaskRunnerV1.run", "Traceback of the task", cause).as_instanceof_cause()


@pytest.fixture
def end(tmp_path, monkeypatch, capsys):
    """Return a function that ends a failed run, and returns what is printed unless verl's own error
    stays.
    """
    monkeypatch.setattr(run.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(run.time, "sleep", lambda _: None)

    def end_run(error, looks, *, speaks=True):
        watch, seen = RunWatch(), iter(looks)
        watch._watch = Watch(WatchConfig(), tmp_path)
        watch._watch.stop = watch._watch.end_processes = lambda: None
        watch._watch._look = lambda wait_s: next(seen)
        job = JobReturn(status=JobStatus.FAILED)
        job._return_value = error
        config = OmegaConf.create({"docagent": {"run_dir": str(tmp_path)}})
        if not speaks:
            return watch.on_job_end(config, job)
        with pytest.raises(SystemExit, match="1"):
            watch.on_job_end(config, job)
        return capsys.readouterr().err

    return end_run


def test_ray_learns_of_a_dead_node_after_the_run_has_failed(end, tmp_path):
    said = end(unavailable(), [None, None, DEATH])
    assert said.startswith(f"docagent-rl: {DEATH}\n")
    assert "ActorUnavailableError" in (tmp_path / "failure_traceback.txt").read_text()


def test_a_trainer_that_died_with_its_node_is_one_error_and_an_error_at_its_start_stays(
    end, monkeypatch
):
    monkeypatch.setattr(run, "NODE_S", 0.0)
    context = ActorDiedErrorContext(
        class_name="TaskRunnerV1", actor_id=b"\0" * 16, error_message="Owner's node has crashed."
    )
    assert "node has crashed" in end(ActorDiedError(context), [None])
    begun = RayTaskError("TaskRunnerV1.__init__", "Traceback of the task", ValueError("no"))
    assert end(ActorDiedError(begun), [None], speaks=False) is None


def test_what_the_trainer_cannot_work_with_is_one_message(end, tmp_path):
    cause = UserError("node 10.0.0.2: docagent.store=/w/store\n  mount it")
    said = end(
        RayTaskError("TaskRunner.run", "Traceback of the task", cause).as_instanceof_cause(), []
    )
    assert said.startswith(f"docagent-rl: {cause}\n")
    assert "Traceback" not in said
    assert "UserError" in (tmp_path / "failure_traceback.txt").read_text()


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            Exception("The current node timed out during startup.\nThis could"),
            "run the same command again",
        ),
        (ValueError("num_cpus must be a natural number"), r"correct ray_kwargs\.ray_init"),
    ],
)
def test_a_ray_that_does_not_start_is_one_message(end, monkeypatch, tmp_path, error, remedy):
    def fail(self, *_, **__):
        raise error

    monkeypatch.setattr("ray._private.node.Node.__init__", fail)
    monkeypatch.setattr(run.ray, "is_initialized", lambda: False)
    with pytest.raises(type(error)) as failed:
        ray.init(address="local", include_dashboard=False)
    said = end(failed.value, [])
    assert re.search(
        rf"^docagent-rl: Ray did not start \({type(error).__name__}: [^\n]*\): .*{remedy}", said
    )
    assert "Traceback" not in said
    assert str(error) in (tmp_path / "failure_traceback.txt").read_text()


def test_an_error_of_another_kind_is_looked_after_once(end):
    assert end(ValueError("no"), [None], speaks=False) is None
    assert end(ValueError("no"), [DEATH]).startswith(f"docagent-rl: {DEATH}")


def test_a_control_service_that_does_not_answer_is_told_once(monkeypatch, tmp_path, capsys):
    answered = threading.Event()

    def read_actors():  # as it waits for a GCS that is gone
        answered.wait()
        raise RuntimeError("Ray has ended")

    monkeypatch.setattr(run, "SILENT_S", 0.2)
    monkeypatch.setattr(run, "read_actors", read_actors)
    monkeypatch.setattr(run.ray, "is_initialized", lambda: True)
    watch = Watch(WatchConfig(interval_s=0.01), tmp_path)
    watch.start()
    until(lambda: "GCS) has not responded" in capsys.readouterr().err)
    answered.set()
    watch.stop()
    assert "GCS" not in capsys.readouterr().err
