"""An eighth of a recipe is rehearsed through verl's trainer, with vLLM as its server."""

import json

import pytest

from docagent_rl.lab.rehearsal.rehearsing import (
    NUMBERS,
    REPORT,
    RUN,
    new_folder,
    rehearse_recipe,
)
from docagent_rl.lab.rehearsal.settings import RehearsalSettings
from docagent_rl.rollout.trajectory import read_trajectories

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_processes")]


def test_an_eighth_of_a_recipe(tmp_path):
    settings = RehearsalSettings(steps=1, share=0.125, workers=1, judge_s=0.2)
    # short turns, for which a CPU does not sample for minutes
    short = "docagent.rollout.turn_tokens=128"
    found = rehearse_recipe("vrag_rl_qwen2_5_vl_7b", tmp_path, settings, [short])

    (step,) = found.steps
    # 4 of 32 questions, 5 trajectories each
    assert step["docagent/trajectories/trained"] == 20
    trajectories = list(read_trajectories(tmp_path / f"{RUN}_1" / "trajectories" / "1.jsonl"))
    assert len(trajectories) == 20
    for trajectory in trajectories:
        assert len(trajectory.turns) == 5
        assert all(turn.record.valid for turn in trajectory.turns)
        lengths = [len(turn.token_ids) for turn in trajectory.turns]
        assert max(lengths) <= 128
        assert sum(lengths) > 4 * 100
    # what the server sampled was replaced, and prefixes stayed in its cache
    assert step["docagent/prefill_ratio"] < 1.3
    assert step["timing_s/update_actor"] > 0
    # the other processes are forks of the test's own, and no descendants of this client of them
    assert found.memory["driver"].processes == 1
    assert found.start_s > 0

    report = (tmp_path / REPORT).read_text()
    assert "| trajectories | 20.00 |" in report
    assert "On the recipe's GPUs, computed" in report
    assert json.loads((tmp_path / NUMBERS).read_text())["steps"] == [step]
    # another rehearsal in the same folder does not resume this one
    assert new_folder(tmp_path) == tmp_path / f"{RUN}_2"
