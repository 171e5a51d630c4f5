"""Runs of all kinds as the commands write them, as tables."""

import pytest

from docagent_rl import runs
from docagent_rl.rollout.trajectory import read_trajectories
from tests.faults.run_damages import make
from tests.runs.test_run import column


@pytest.mark.slow
def test_runs_of_all_kinds_as_the_commands_write_them(world, tmp_path):
    made_runs = make(world, tmp_path)
    kinds = {}
    for name in made_runs.kinds:
        found = runs.open(tmp_path / "2" / name)
        kinds[name] = found.kind.value
        files = [file for part in found.parts for file in part.trajectory_files]
        recorded = [each for file in files for each in read_trajectories(file)]
        assert recorded
        assert found.trajectories.num_rows == len(recorded), name
        assert found.turns.num_rows == sum(len(each.turns) for each in recorded), name
        assert found.tokens.num_rows == found.turns.num_rows
        terms = found.terms.to_pylist()
        assert {row["term"] for row in terms} >= {"outcome"}, name
        weighed = {row["term"] for row in terms if row["weight"] is not None}
        # the file of a collection has its environment, but no configuration with weights
        assert weighed >= {"outcome"} or name == "collected", name
    assert kinds == {
        "trained": "training", "eval": "evaluation", "collected": "collection", "probe": "probe",
        "rescored": "rescoring",
    }  # fmt: skip
    evaluated = runs.open(tmp_path / "2" / "eval")
    assert set(column(evaluated.scores, "question_id")) == set(
        column(evaluated.trajectories, "question_id")
    )
    collected = runs.open(tmp_path / "2" / "collected").trajectories
    kept = list(read_trajectories(tmp_path / "2" / "collected" / "kept.jsonl"))
    assert column(collected, "dropped_by").count(None) == len(kept)
