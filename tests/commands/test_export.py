import pytest
from typer.testing import CliRunner

from docagent_rl.base.errors import UserError
from docagent_rl.cli import app
from docagent_rl.lab.tiny.model import build_tiny_model


def exported(*arguments):
    done = CliRunner().invoke(app, ["export", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout.strip()


def test_a_whole_model_stays_where_it_is_or_is_copied(tmp_path):
    model = build_tiny_model(tmp_path / "model")
    assert exported(model) == str(model)
    assert exported(model, "--out", tmp_path / "copy") == str(tmp_path / "copy")
    first, second = (folder / "model.safetensors" for folder in (model, tmp_path / "copy"))
    assert first.read_bytes() == second.read_bytes()


def test_nothing_is_overwritten_and_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match="gone"):
        exported(tmp_path / "gone")
    with pytest.raises(UserError, match=str(tmp_path)):
        exported(tmp_path, "--out", tmp_path)
