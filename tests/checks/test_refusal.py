from __future__ import annotations

import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.preflight import Preflight
from docagent_rl.checks.refusal import TRACEBACK_FILE, refuse
from docagent_rl.errors import InfrastructureError, UserError


@pytest.fixture
def told(capsys):
    """What is said of an error that a run is refused for."""

    def told(error, config) -> str:
        with pytest.raises(SystemExit) as stop:
            refuse(error, OmegaConf.create(config))
        assert stop.value.code == 2
        text = capsys.readouterr().err
        assert "Traceback" not in text
        return text

    return told


def at(run_dir):
    return {"docagent": {"run_dir": str(run_dir)}}


@pytest.mark.parametrize("kind", [UserError, InfrastructureError])
def test_an_expected_problem_is_its_message(kind, told, tmp_path):
    assert told(kind("no such store"), at(tmp_path)) == "docagent-rl: no such store\n"
    assert not list(tmp_path.iterdir())


def test_a_bug_leaves_its_traceback_in_the_folder_of_the_run(told, tmp_path):
    try:
        {}["lost"]
    except KeyError as error:
        text = told(error, at(tmp_path / "runs" / "new"))
    path = tmp_path / "runs" / "new" / TRACEBACK_FILE
    assert "KeyError: 'lost'" in text
    assert str(path) in text
    assert path.read_text().splitlines()[-1] == "KeyError: 'lost'"
    assert '{}["lost"]' in path.read_text()


@pytest.mark.parametrize(
    "config", [at("/dev/null"), {"docagent": {"run_dir": None}}, {}, {"docagent": {"run_dir": "${lost}"}}]
)
def test_without_such_a_folder_it_is_in_the_temporary_one(config, told, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = told(RuntimeError("odd"), config)
    path = Path(re.search(r"traceback: (\S+)", text).group(1))
    assert [path] == list(tmp_path.iterdir())
    assert "RuntimeError: odd" in path.read_text()


def test_an_error_without_a_message(told, tmp_path):
    assert "AssertionError" in told(AssertionError(), at(tmp_path))


def test_the_callback_ends_the_process_whatever_a_check_meets(capsys):
    """A configuration that is none: the checks stumble, and Hydra would go on."""
    with pytest.raises(SystemExit) as stop:
        Preflight().on_run_start(OmegaConf.create({"docagent": 3, "trainer": {}}))
    assert stop.value.code == 2
    assert "docagent-rl: " in capsys.readouterr().err
