import shutil

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.checks.preflight import check
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.tiny.demo import prepare_demo
from docagent_rl.lab.tiny.workspace import DemoPaths, Owner
from docagent_rl.samples.parquet import write_parquet
from docagent_rl.samples.sample import Split
from docagent_rl.systems.vrag_rl.script import VragScript

MODEL = "models/tiny_vrag_rl_qwen2_5_vl"


@pytest.fixture
def paths(world, tmp_path, monkeypatch):
    """Return a workspace as a user makes it, with a warm-up of one step."""
    brief = {"short_steps": 1, "full_steps": 1, "pool": 2, "batch_size": 1}
    monkeypatch.setattr(VragScript, "warm_up", brief)
    made = DemoPaths(tmp_path / "workspace")
    shutil.copytree(world.root / "store", made.store)
    shutil.copytree(world.root / "index", made.index)
    for split, count in ((Split.TRAIN, 16), (Split.VAL, 4)):
        write_parquet(world.samples[:count], made.data(split))
    return made


@pytest.fixture(scope="module")
def recipe():
    return composed_recipe("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu"])


@pytest.fixture
def checked(recipe):
    def run(paths, **changes):
        config = recipe.copy()
        for key, value in {"docagent.workspace": paths.workspace, **changes}.items():
            OmegaConf.update(config, key, str(value))
        return check(config)

    return run


def snapshot(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_users_workspace_gets_the_tiny_model_and_nothing_else(paths, checked, capsys, tmp_path):
    """No model is made if the user has one."""
    before = snapshot(paths.workspace)
    checked(paths)
    after = snapshot(paths.workspace)
    assert {name: after[name] for name in before} == before
    assert {name.rpartition("/")[0] for name in after if name not in before} == {MODEL}
    assert paths.owner() is Owner.USER
    assert "synthetic reports" in capsys.readouterr().err
    checked(paths)
    assert snapshot(paths.workspace) == after
    shutil.move(paths.model("vrag_rl"), tmp_path / "mine")
    checked(paths, **{"actor_rollout_ref.model.path": tmp_path / "mine"})
    assert not paths.model("vrag_rl").exists()


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("store", "docagent-rl ingest PDFS --store "),
        ("index", "docagent-rl index build --store "),
        ("data", "docagent-rl data convert QUESTIONS.jsonl --store "),
        ("data/val.parquet", "data.val_files: "),
    ],
)
def test_what_a_user_lacks_is_named_and_not_made(paths, checked, missing, command):
    gone = paths.workspace / missing
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    before = snapshot(paths.workspace)
    with pytest.raises(UserError, match=str(paths.workspace)) as error:
        checked(paths)
    assert command in str(error.value)
    # the command that makes demos refuses it too
    with pytest.raises(UserError, match=str(paths.workspace)):
        prepare_demo(paths.workspace)
    assert snapshot(paths.workspace) == before


def test_a_stale_index_of_a_user_is_not_rebuilt(paths, checked):
    min((paths.store / "documents").rglob("*.json")).unlink()
    before = snapshot(paths.workspace)
    with pytest.raises(UserError, match=r"index build .*--force"):
        checked(paths)
    assert snapshot(paths.workspace) == before
