"""Runs of W&B and MLflow that a resumed run continues."""

import inspect
import json
import os
import sys
from types import ModuleType, SimpleNamespace

import pytest
import verl.utils.tracking as upstream
import wandb
from verl.utils.tracking import Tracking

from docagent_rl.training.trainer.trackers import FILE, continue_trackers, note_trackers

NAMES = ("WANDB_RUN_ID", "WANDB_RESUME", "MLFLOW_RUN_ID")


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Remove the trackers' variables, now and after the test."""
    for name in NAMES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def mlflow(monkeypatch):
    """Replace the part of MLflow that is used, since the package is not installed."""
    module = ModuleType("mlflow")
    run = SimpleNamespace(
        info=SimpleNamespace(run_id="m1"), data=SimpleNamespace(params={"a/b": "1"})
    )
    module.active_run, module.get_run = lambda: run, lambda run_id: run
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


@pytest.mark.slow
def test_a_run_that_goes_on_continues_its_run_of_wandb(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.chdir(tmp_path)
    ids = []
    for _ in range(2):
        tracking = Tracking("project", "name", ["wandb"], config={"trainer": {}})
        note_trackers(tmp_path, tracking)
        tracking.log({"loss": 1.0}, step=len(ids) + 1)
        tracking.finish()
        wandb.teardown()  # another start is another process
        ids.append(json.loads((tmp_path / FILE).read_text())["wandb"])
        continue_trackers(tmp_path)
    assert ids[0] == ids[1] == os.environ["WANDB_RUN_ID"]
    assert os.environ["WANDB_RESUME"] == "allow"
    runs = sorted((tmp_path / "wandb").glob("offline-run-*"))
    assert len(runs) == 2
    assert all(each.name.endswith(ids[0]) for each in runs)


def test_mlflows_run_is_named_and_a_variable_of_the_users_stays(tmp_path, monkeypatch, mlflow):
    module = SimpleNamespace(run=SimpleNamespace(id="w1"))
    note_trackers(tmp_path, SimpleNamespace(logger={"wandb": module, "mlflow": object()}))
    monkeypatch.setenv("WANDB_RUN_ID", "mine")
    continue_trackers(tmp_path)
    assert [os.environ.get(name) for name in NAMES] == ["mine", None, "m1"]


@pytest.mark.parametrize("text", [None, "{", "[]", '{"else": "x"}'])
def test_without_a_record_nothing_is_continued(tmp_path, text):
    if text is not None:
        (tmp_path / FILE).write_text(text)
    continue_trackers(tmp_path)
    note_trackers(tmp_path, SimpleNamespace(logger={"console": None}))
    assert not [name for name in NAMES if name in os.environ]


def test_parameters_that_mlflow_has_are_not_logged_again(monkeypatch, mlflow):
    log = upstream._compute_mlflow_params_from_objects
    config = {"a": {"b": 2, "c": 3}}
    assert log(config) == {"a/b": 2, "a/c": 3}
    monkeypatch.setenv("MLFLOW_RUN_ID", "m1")
    assert log(config) == {"a/c": 3}
    assert log.__wrapped__(config) == {"a/b": 2, "a/c": 3}  # upstream still would
    source = inspect.getsource(Tracking.__init__)
    assert "mlflow.log_params(_compute_mlflow_params_from_objects(config))" in source
