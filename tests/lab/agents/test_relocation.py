"""Stored runs are read after their workspace has moved."""

import pytest
from omegaconf import OmegaConf

from docagent_rl.lab.agents.relocation import VARIABLE, move_workspace, relocate


def stored(workspace):
    section = {
        "workspace": str(workspace),
        "store": "${docagent.workspace}/store",
        "retriever": {"index": f"{workspace}/index", "model": f"{workspace}x/model"},
    }
    return OmegaConf.create({"docagent": section, "actor": {"path": f"{workspace}/models/a"}})


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "w" / "store").mkdir(parents=True)
    return tmp_path / "w"


def test_paths_below_a_workspace_move_with_it():
    config = stored("/old")
    move_workspace(config, "/new/")
    section = OmegaConf.to_container(config, resolve=True)["docagent"]
    assert (section["workspace"], section["store"]) == ("/new", "/new/store")
    assert section["retriever"] == {"index": "/new/index", "model": "/oldx/model"}
    assert config.actor.path == "/new/models/a"


def test_a_workspace_that_is_there_stays(workspace, monkeypatch):
    monkeypatch.setenv(VARIABLE, "/another")
    config = stored(workspace)
    relocate(config, workspace / "runs" / "x")
    assert config.docagent.workspace == str(workspace)


def test_one_that_is_gone_is_looked_for(workspace, monkeypatch, tmp_path, caplog):
    config = stored("/gone")
    relocate(config, workspace / "runs" / "x")
    assert config.docagent.store == str(workspace / "store")
    assert "/gone" in caplog.text
    monkeypatch.setenv(VARIABLE, "/another")
    config = stored("/gone")
    relocate(config, workspace / "runs" / "x")
    assert config.docagent.store == "/another/store"
    monkeypatch.delenv(VARIABLE)
    config = stored("/gone")
    relocate(config, tmp_path / "copied")
    assert config.docagent.store == "/gone/store"
