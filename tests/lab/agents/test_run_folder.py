"""Folders of runs: to which run they belong, and which of their files are complete."""

import shutil
from pathlib import Path

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.audit import audit_run
from docagent_rl.checkpoints.file_status import FileStatus, file_findings
from docagent_rl.lab.agents.run_folder import RunFolder, run_names, trajectories_of
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
    folder, new = begun(tmp_path), begun(tmp_path / "new")
    write(folder, (0, 0.0), (1, 0.0))
    write(new)
    whole = folder.trajectories_file.read_bytes()
    for torn, one, left in (
        (whole + b'{"uid": "q' + b"x" * 100_000, folder, whole),
        (b"torn", new, b""),
    ):
        one.trajectories_file.write_bytes(torn)
        with one.writing():
            assert one.trajectories_file.read_bytes() == left


def test_a_run_goes_on_after_a_kill_and_not_after_damage(tmp_path):
    folder = begun(tmp_path)
    write(folder, (0, 0.25))
    sealed = folder.trajectories_file.read_bytes()
    trajectory = new_trajectory(SAMPLE, 1, "none")
    folder.trajectories_file.write_bytes(sealed + trajectory.to_json().encode() + b"\n")
    assert [each.status for each in file_findings(tmp_path)][-1] is FileStatus.UNSEALED
    write(folder, (2, 0.5))
    assert [each.number for each in folder.trajectories()] == [0, 1, 2]
    assert {each.status for each in file_findings(tmp_path)} == {FileStatus.WHOLE}
    folder.trajectories_file.write_bytes(
        folder.trajectories_file.read_bytes().replace(b"0.25", b"0.75")
    )
    with pytest.raises(UserError, match="does not contain the bytes that were written"):
        write(folder, (3, 0.0))
    with pytest.raises(UserError, match="does not contain the bytes that were written"):
        list(trajectories_of(tmp_path))


def test_an_evaluation_in_the_folder_of_a_run_is_missed_when_it_is_lost(tmp_path):
    run, inner = begun(tmp_path / "run"), begun(tmp_path / "run" / "inner")
    write(inner, (0, 0.0))
    assert audit_run(run.path).damages == []
    inner.trajectories_file.write_bytes(b"")
    assert [each.path for each in audit_run(run.path).damages] == [inner.trajectories_file]
    shutil.rmtree(inner.path)
    audit = audit_run(run.path)
    assert (audit.damages, [str(inner.path) in each for each in audit.notes]) == ([], [True])


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
