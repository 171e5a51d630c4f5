"""A run that SIGTERM asks to end: the behaviour of its driver and its trainer."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from ray.experimental import internal_kv

from docagent_rl.checkpoints.manifest import TRACKER, write_tracker
from docagent_rl.watch import stopping
from docagent_rl.watch.processes import RUN_VARIABLE
from docagent_rl.watch.stopping import StopRequest, StopSignal
from tests.watch.conftest import until


@pytest.fixture
def store(monkeypatch):
    """Replace Ray's key-value store by a dictionary, and let it exist."""
    kept = {}
    monkeypatch.setenv(RUN_VARIABLE, "a1")
    monkeypatch.setattr(stopping.ray, "is_initialized", lambda: True)
    monkeypatch.setattr(internal_kv, "_internal_kv_initialized", lambda: True)
    monkeypatch.setattr(
        internal_kv, "_internal_kv_put", lambda k, v, namespace: kept.update({k: v})
    )
    monkeypatch.setattr(internal_kv, "_internal_kv_exists", lambda k, namespace: k in kept)
    return kept


@pytest.fixture
def clock(monkeypatch):
    made = SimpleNamespace(now=0.0)
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Listen for a real SIGTERM."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(stopping.ray_worker, "_post_init_hooks", [])
    made = StopSignal(10.0, tmp_path)
    made.listen()
    yield made
    signal.signal(signal.SIGTERM, before)


def test_a_wish_reaches_the_trainer_and_its_answer_the_driver(asked, store, clock, capsys):
    request = StopRequest(10.0)
    assert asked.look() is None
    assert (asked.received, request.asked, store) == (False, False, {})
    signal.raise_signal(signal.SIGTERM)
    for _ in range(2):
        assert asked.look() is None
    (line,) = capsys.readouterr().err.splitlines()
    assert all(part in line for part in ("SIGTERM", "docagent.watch.stop_s", "status 75"))
    assert request.asked is False  # it asks once a second
    clock.now = 1.0
    assert (request.asked, request.overdue, asked.confirmed()) == (True, False, False)
    clock.now = 11.0
    assert (request.overdue, asked.look()) == (True, None)
    request.confirm()
    assert asked.confirmed()


def test_another_start_of_the_same_cluster_is_not_asked(asked, store, clock, monkeypatch):
    signal.raise_signal(signal.SIGTERM)
    asked.look()
    monkeypatch.setenv(RUN_VARIABLE, "b2")
    assert StopRequest(10.0).asked is False


def test_a_run_that_does_not_end_is_ended_and_says_where_it_goes_on(asked, store, clock, tmp_path):
    signal.raise_signal(signal.SIGTERM)
    assert asked.look() is None
    clock.now = 20.0
    assert "there is no checkpoint" in asked.look()
    write_tracker(tmp_path, 7)
    assert asked.look().endswith(f"the same command resumes from {tmp_path}/global_step_7")
    (tmp_path / TRACKER).write_text("?")
    assert "there is no checkpoint" in asked.look()


def test_a_second_signal_ends_it_at_once_and_so_does_one_before_ray(asked, store, monkeypatch):
    signal.raise_signal(signal.SIGTERM)
    assert asked.look() is None
    signal.raise_signal(signal.SIGTERM)
    assert "second SIGTERM" in asked.look()
    early = StopSignal(10.0, Path("/nowhere"))
    early._count(signal.SIGTERM, None)
    monkeypatch.setattr(stopping.ray, "is_initialized", lambda: False)
    assert "before Ray had started" in early.look()


DRIVER = Path(__file__).with_name("stop_app.py")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "status"), [("obeys", 75), ("finishes", 0), ("hangs", 75)])
def test_a_driver_that_waits_in_ray_ends_with_a_status_for_requeueing(tmp_path, kind, status):
    command = [sys.executable, str(DRIVER), str(tmp_path), kind]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, RUN_VARIABLE: "x"}
    )
    until(lambda: (tmp_path / "training").exists() or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)
    assert process.returncode == status, said
    lines = [line for line in said.splitlines() if line.startswith("docagent-rl: ")]
    assert len(lines) == (1 if kind == "finishes" else 2), said
    assert ("resumes from" in lines[-1]) == (kind != "finishes")
    assert "Traceback" not in said
    assert not ray.is_initialized()
