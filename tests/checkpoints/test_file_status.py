import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.file_status import runs_below, runs_hint
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.viewer.folder import ViewedRun


@pytest.fixture
def workspace(tmp_path):
    """Return a workspace with a run of the trainer, which has an evaluation, and an evaluation."""
    trained = tmp_path / "w" / "runs" / "trained"
    for folder in (trained / "trajectories", trained / "eval", tmp_path / "w" / "runs" / "played"):
        folder.mkdir(parents=True)
    (trained / "trajectories" / "1.jsonl").write_text("")
    (trained / "eval" / "run.json").write_text("{}")
    (tmp_path / "w" / "runs" / "played" / "run.json").write_text("{}")
    (tmp_path / "w" / "store" / "documents").mkdir(parents=True)
    return tmp_path / "w"


def test_the_runs_of_a_workspace_are_found_without_those_inside_of_them(workspace):
    runs = workspace / "runs"
    assert runs_below(workspace) == [runs / "played", runs / "trained"]
    assert runs_below(runs / "trained") == [runs / "trained" / "eval"]
    assert runs_below(runs / "played") == []
    assert runs_hint(workspace / "store") == ""


def test_of_many_runs_an_error_names_a_few(tmp_path):
    for number in range(9):
        (tmp_path / f"run{number}").mkdir()
        (tmp_path / f"run{number}" / "run.json").write_text("{}")
    assert runs_hint(tmp_path).endswith(f"{tmp_path / 'run4'} and 4 more")


def test_who_names_a_workspace_in_place_of_a_run_is_told_its_runs(workspace):
    for opened in (ViewedRun, lambda path: RunFolder(path).manifest()):
        with pytest.raises(UserError) as refused:
            opened(workspace)
        assert f"{workspace} is not a run" in str(refused.value)
        assert f"{workspace / 'runs' / 'trained'}" in str(refused.value)


def test_who_names_a_run_of_the_trainer_in_place_of_an_evaluation_is_told_what_to_do(workspace):
    trained = workspace / "runs" / "trained"
    with pytest.raises(UserError) as refused:
        RunFolder(trained).manifest()
    for part in (
        f"{trained} is a run of the trainer",
        f"the runs in it are {trained / 'eval'}",
        f"docagent-rl eval RECIPE --data QUESTIONS --out {trained}/eval --model {trained}",
        f"docagent-rl view {trained}",
    ):
        assert part in str(refused.value)
    with pytest.raises(UserError, match="gone: no such folder"):
        RunFolder(workspace / "gone").manifest()
