"""`eval` plays what a run's validation played, for the model before training and for a checkpoint
of the run.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories
from tests.e2e.conftest import FAMILY, RECIPE
from tests.e2e.grpo import STEPS

Trajectories = dict[str | None, Trajectory]


@pytest.fixture(scope="module")
def run(runs):
    return runs.result(RECIPE)


def evaluated(run, model: Path, out: Path) -> Trajectories:
    """Play the questions of the run's validation with a model in a process of its own."""
    command = [
        *(run.python, "-m", "docagent_rl.cli", "eval", RECIPE),
        *("--data", run.folder / "val.parquet", "--model", model, "--out", out),
        *("--", "+profile=cpu", f"docagent.workspace={run.workspace}"),
    ]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return by_question(read_trajectories(out / "trajectories.jsonl"))


def by_question(played: Iterable[Trajectory]) -> Trajectories:
    return {trajectory.question_id: trajectory for trajectory in played}


def log_probs(trajectories: Trajectories) -> np.ndarray:
    ordered = sorted(trajectories.items(), key=lambda item: str(item[0]))
    return np.array(
        [
            value
            for _, trajectory in ordered
            for turn in trajectory.turns
            for value in turn.log_probs
        ]
    )


def test_the_model_before_training_plays_the_same_tokens(run, tmp_path):
    found = evaluated(run, DemoPaths(run.workspace).model("vrag_rl", FAMILY), tmp_path / "eval")
    validated = by_question(run.trajectories("val-0"))
    assert found.keys() == validated.keys()
    for question, trajectory in found.items():
        other = validated[question]
        assert (trajectory.status, trajectory.end, trajectory.reward) == (
            other.status,
            other.end,
            other.reward,
        )
        assert [turn.token_ids for turn in trajectory.turns] == [
            turn.token_ids for turn in other.turns
        ]
        assert [turn.observation for turn in trajectory.turns] == [
            turn.observation for turn in other.turns
        ]
    assert np.abs(log_probs(found) - log_probs(validated)).max() < 1e-4


def test_a_checkpoint_of_the_run_is_played_from_its_shards(run, tmp_path):
    found = evaluated(run, run.run_dir, tmp_path / "eval")
    validated = by_question(run.trajectories(f"val-{STEPS}"))
    assert found.keys() == validated.keys()
    merged = list((run.run_dir / "checkpoints" / "merged").iterdir())
    assert [folder.name.partition("-")[0] for folder in merged] == [f"global_step_{STEPS}"]
    # merged weights are bfloat16, those of the run float32: a likeliest token may be another one
    same = {
        question: trajectory
        for question, trajectory in found.items()
        if [turn.token_ids for turn in trajectory.turns]
        == [turn.token_ids for turn in validated[question].turns]
    }
    assert len(same) >= len(found) - 1
    assert np.abs(log_probs(same) - log_probs({each: validated[each] for each in same})).max() < 0.1
