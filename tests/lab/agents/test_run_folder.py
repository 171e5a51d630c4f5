"""Folders of runs: whose they are, and what of them is whole."""

from pathlib import Path

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.agents.run_folder import RunFolder, run_names
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.samples.sample import Sample, Split

SAMPLE = Sample("q", "own", Split.VAL, "d", "Where?", ("there",))


def begun(path, **manifest):
    folder = RunFolder(path)
    folder.begin(manifest)
    return folder


def write(folder, *trajectories):
    with folder.writing() as append:
        for trajectory, reward in trajectories:
            trajectory = new_trajectory(SAMPLE, trajectory, "none")
            trajectory.reward = reward
            append(trajectory)


def test_another_run_is_refused_and_what_differs_is_named(tmp_path):
    begun(tmp_path, player={"model": "a", "seed": 1}, questions="x")
    begun(tmp_path, questions="x", player={"seed": 1, "model": "a"}, overrides=["x=1"])
    with pytest.raises(UserError, match=r"player\.model"):
        begun(tmp_path, player={"model": "b", "seed": 1}, questions="x")


def test_trajectories_of_nobody_are_not_taken_over(tmp_path):
    (tmp_path / "trajectories.jsonl").write_text("mine")
    with pytest.raises(UserError, match=r"run\.json"):
        begun(tmp_path)
    assert (tmp_path / "trajectories.jsonl").read_text() == "mine"


def test_a_torn_line_is_cut(tmp_path):
    folder = begun(tmp_path)
    write(folder, (0, 0.0), (1, 0.0))
    whole = folder.trajectories_file.read_bytes()
    for torn, left in ((whole + b'{"uid": "q' + b"x" * 100_000, whole), (b"torn", b"")):
        folder.trajectories_file.write_bytes(torn)
        with folder.writing():
            assert folder.trajectories_file.read_bytes() == left


def test_the_last_trajectory_of_a_key_stays(tmp_path):
    folder = begun(tmp_path)
    # one process writes at a time
    with folder.writing(), pytest.raises(UserError), folder.writing():
        pass
    write(folder, (1, 1.0), (0, 2.0), (1, 3.0), (7, 4.0))
    folder.order([("q", 0), ("q", 1), ("q", 2)])
    assert [(one.number, one.reward) for one in folder.trajectories()] == [(0, 2.0), (1, 3.0)]


@pytest.mark.parametrize("text", ["[]", '{"version": 99}', "{"])
def test_a_manifest_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=r"run\.json"):
        begun(tmp_path)


def test_names_tell_runs_apart():
    assert run_names([Path("/x/a"), Path("/y/b")]) == ["a", "b"]
    assert run_names([Path("/x/one/a"), Path("/x/two/a")]) == ["one/a", "two/a"]
