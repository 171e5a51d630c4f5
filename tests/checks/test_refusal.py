from __future__ import annotations

import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from docagent_rl.checks.preflight import Preflight
from docagent_rl.checks.refusal import TRACEBACK_FILE, refuse
from docagent_rl.errors import InfrastructureError, UserError


def config(run_dir):
    return OmegaConf.create({"docagent": {"run_dir": str(run_dir)}})


def told(error, config, capsys) -> str:
    with pytest.raises(SystemExit) as stop:
        refuse(error, config)
    assert stop.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("kind", [UserError, InfrastructureError])
def test_an_expected_problem_is_its_message(kind, tmp_path, capsys):
    assert told(kind("no such store"), config(tmp_path), capsys) == "docagent-rl: no such store\n"
    assert not list(tmp_path.iterdir())


def test_a_bug_leaves_its_traceback_in_the_folder_of_the_run(tmp_path, capsys):
    try:
        {}["lost"]
    except KeyError as error:
        text = told(error, config(tmp_path / "runs" / "new"), capsys)
    path = tmp_path / "runs" / "new" / TRACEBACK_FILE
    assert "the run does not start: KeyError: 'lost'" in text
    assert f"traceback: {path}" in text
    assert "Traceback" not in text
    assert path.read_text().splitlines()[-1] == "KeyError: 'lost'"
    assert '{}["lost"]' in path.read_text()


@pytest.mark.parametrize("section", ["{docagent: {run_dir: null}}", "{}", "{docagent: {run_dir: '${lost}'}}"])
def test_without_such_a_folder_it_is_in_the_temporary_one(section, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = told(RuntimeError("odd"), OmegaConf.create(section), capsys)
    (path,) = tmp_path.iterdir()
    assert str(path) in text
    assert "RuntimeError: odd" in path.read_text()


def test_a_folder_that_cannot_be_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").write_text("in the way")
    text = told(RuntimeError("odd"), config(tmp_path / "file"), capsys)
    path = Path(re.search(r"traceback: (\S+)", text).group(1))
    assert path.parent == tmp_path
    assert "RuntimeError: odd" in path.read_text()


def test_an_error_without_a_message(tmp_path, capsys):
    assert "AssertionError: no message" in told(AssertionError(), config(tmp_path), capsys)


def test_the_callback_ends_the_process_whatever_a_check_meets(tmp_path, capsys):
    """A configuration that is none: the checks stumble, and Hydra would go on."""
    with pytest.raises(SystemExit) as stop:
        Preflight().on_run_start(OmegaConf.create({"docagent": 3, "trainer": {}}))
    assert stop.value.code == 2
    assert "docagent-rl: " in capsys.readouterr().err
