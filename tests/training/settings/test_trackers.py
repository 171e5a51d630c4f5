"""Trackers without a key or a server are reported before models load."""

import os
import socket

import pytest
from omegaconf import OmegaConf

from docagent_rl.training.settings.trackers import access_problems

NAMES = (
    "WANDB",
    "SWANLAB",
    "CLEARML",
    "MLFLOW",
    "VOLC",
    "NETRC",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
)


@pytest.fixture
def home(monkeypatch, tmp_path):
    """Set up a machine on which nobody has logged in."""
    for name in list(os.environ):
        if name.startswith(NAMES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(*loggers, **variables):
    config = {"trainer": {"logger": list(loggers)}}
    config["ray_kwargs"] = {"ray_init": {"runtime_env": {"env_vars": variables}}}
    return list(access_problems(OmegaConf.create(config)))


def test_without_a_key_what_to_do_is_said(home):
    for name, remedy in {
        "wandb": "WANDB_MODE=offline, or remove wandb",
        "swanlab": "SWANLAB_API_KEY",
        "clearml": "clearml-init",
        "vemlp_wandb": "set VOLC_ACCESS_KEY_ID, VOLC_SECRET_ACCESS_KEY, MLP_TRACKING_REGION, or",
    }.items():
        (problem,) = problems("console", name)
        assert problem.startswith("trainer.logger: ")
        assert remedy in problem
    assert problems("console", "file", "tensorboard", "mlflow") == []


@pytest.mark.parametrize(
    "variables",
    [{"WANDB_API_KEY": "k"}, {"WANDB_MODE": "offline"}, {"WANDB_MODE": "disabled"}],
)
def test_wandb_finds_its_key_or_needs_none(home, monkeypatch, variables):
    assert problems("wandb", **variables) == []
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert problems("wandb") == []


def test_what_logins_write_is_found(home):
    (home / ".netrc").write_text("machine api.wandb.ai login user password hunter2\n")
    assert problems("wandb") == []
    (problem,) = problems("wandb", WANDB_BASE_URL="https://wandb.example.org")
    assert "wandb.example.org" in problem
    (home / ".netrc").write_text("machine")
    assert problems("wandb")
    (home / "wandb").mkdir()
    (home / "wandb" / "settings").write_text("[default]\nmode = offline\n")
    assert problems("wandb") == []
    (home / "clearml.conf").touch()
    (home / ".swanlab").mkdir()
    (home / ".swanlab" / ".netrc").touch()
    assert problems("clearml", "swanlab") == []


def test_a_server_of_mlflow_has_to_be_there(home):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        url = f"http://user:hunter2@127.0.0.1:{port}"
        assert problems("mlflow", MLFLOW_TRACKING_URI=url) == []
    (problem,) = problems("mlflow", MLFLOW_TRACKING_URI=url)
    assert f"MLFLOW_TRACKING_URI=http://127.0.0.1:{port}" in problem
    assert "hunter2" not in problem
    assert problems("mlflow", MLFLOW_TRACKING_URI="sqlite:///runs.db") == []
