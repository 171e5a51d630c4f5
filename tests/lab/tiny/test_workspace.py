import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.workspace import DemoPaths, Owner, claim


@pytest.fixture
def paths(tmp_path):
    return DemoPaths(tmp_path / "workspace")


def test_what_holds_no_data_is_new(paths):
    assert paths.owner() is Owner.NOBODY
    for name in ("pdfs", "runs/vrag/hydra", "models/mine"):
        (paths.workspace / name).mkdir(parents=True)
    (paths.workspace / ".gitkeep").touch()
    assert paths.owner() is Owner.NOBODY
    claim(paths)
    assert paths.owner() is Owner.DEMO
    paths.store.mkdir()
    assert paths.owner() is Owner.DEMO


@pytest.mark.parametrize("name", ["store", "index", "data", "questions.jsonl"])
def test_a_workspace_with_anything_else_is_the_users(paths, name):
    (paths.workspace / name).mkdir(parents=True)
    assert paths.owner() is Owner.USER
    with pytest.raises(UserError, match=name):
        claim(paths)
    assert not paths.marker.exists()
