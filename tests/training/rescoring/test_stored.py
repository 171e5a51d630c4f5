"""Runs whose sessions are paid again."""

import pytest
import yaml

from docagent_rl.errors import UserError
from docagent_rl.play.run_folder import RunFolder
from docagent_rl.training.rescoring.stored import StoredRun
from docagent_rl.training.trainer.archive import write_trajectories


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    for name in ("1", "10", "2", "val-2"):
        write_trajectories(folder, int(name.rpartition("-")[2]), [], validation="val" in name)
    (folder / "hydra").mkdir()
    config = {"docagent": {"judge": {"kind": "rule"}, "env": {}}, "algorithm": {"adv_estimator": "grpo"}}
    (folder / "hydra" / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def test_steps_in_order(run):
    stored = StoredRun.open(run)
    assert list(stored.files) == ["train/1", "train/2", "train/10", "val/2"]
    assert list(stored.chosen([], validation=False)) == ["train/1", "train/2", "train/10"]
    assert list(stored.chosen([10], validation=False)) == ["train/10"]
    assert list(stored.chosen([], validation=True)) == ["val/2"]
    with pytest.raises(UserError, match=r"val/1.* 2"):
        stored.chosen([1], validation=True)


def test_other_values(run):
    stored = StoredRun.open(run)
    changed = stored.changed(
        ["docagent.judge.kind=exact", "+docagent.env.max_turns=3", "algorithm.adv_estimator=spo"]
    )
    assert changed.docagent.judge.kind == "exact"
    assert changed.docagent.env.max_turns == 3
    assert changed.algorithm.adv_estimator == "spo"
    assert stored.config.docagent.judge.kind == "rule"
    with pytest.raises(UserError, match=r"docagent\.jugde\.kind"):
        stored.changed(["docagent.jugde.kind=exact"])
    with pytest.raises(UserError, match="KEY=VALUE"):
        stored.changed(["docagent.judge.kind"])


def test_an_evaluation(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        StoredRun.open(tmp_path)
    folder = RunFolder(tmp_path / "run")
    folder.begin({"config": {"docagent": {"system": "alden"}}})
    with pytest.raises(UserError, match=str(tmp_path)):
        StoredRun.open(folder.path)
    folder.sessions_file.touch()
    stored = StoredRun.open(folder.path)
    assert stored.chosen([3], validation=True) == {"sessions": folder.sessions_file}
    assert stored.config.docagent.run_dir == str(folder.path)
