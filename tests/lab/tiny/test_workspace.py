from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.workspace import MARKER, DemoLedger, DemoPaths, Owner


@pytest.fixture
def paths(tmp_path):
    return DemoPaths(tmp_path / "workspace")


def test_what_holds_no_data_is_new(paths):
    assert paths.owner() is Owner.NOBODY
    for name in ("pdfs", "runs/vrag/hydra", "models/mine"):
        (paths.workspace / name).mkdir(parents=True)
    (paths.workspace / ".gitkeep").touch()
    assert paths.owner() is Owner.NOBODY
    DemoLedger(paths)
    assert paths.owner() is Owner.DEMO
    paths.store.mkdir()
    assert paths.owner() is Owner.DEMO


@pytest.mark.parametrize("name", ["store", "index", "data", "questions.jsonl"])
def test_a_workspace_with_anything_else_is_the_users(paths, name):
    (paths.workspace / name).mkdir(parents=True)
    assert paths.owner() is Owner.USER
    with pytest.raises(UserError, match=name):
        DemoLedger(paths)
    assert not paths.marker.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"docagent_demo": 2, "files": {}, "documents": []}'])
def test_a_damaged_marker_is_named(paths, content):
    paths.workspace.mkdir()
    paths.marker.write_text(content)
    with pytest.raises(UserError, match=MARKER):
        paths.owner()


def test_a_file_is_no_workspace(paths):
    paths.workspace.touch()
    with pytest.raises(UserError, match=paths.workspace.name):
        paths.owner()


def test_only_its_own_files_are_written_again(paths):
    ledger, file = DemoLedger(paths), paths.workspace / "data" / "train.parquet"
    assert ledger.may_write(file, b"one")
    file.parent.mkdir()
    file.write_bytes(b"one")
    assert not DemoLedger(paths).may_write(file, b"two")
    ledger.note(file, b"one")
    assert DemoLedger(paths).may_write(file, b"two")
    assert not ledger.may_write(file, b"one")
    file.write_bytes(b"changed by hand")
    assert not DemoLedger(paths).may_write(file, b"two")
    assert ledger.add_documents(["b", "a"]) == ["a", "b"]
    assert DemoLedger(paths).add_documents(["c"]) == ["a", "b", "c"]
