"""Each paper's chain runs on a CPU, from generated downloads to a report beside the paper's
table.
"""

import json

import pytest

from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.samples.parquet import read_parquet
from tests.e2e.reproduction import IN_EVERY_TEST, OTHERS, TRAINED


@pytest.fixture(scope="module")
def reproduced(runs):
    return lambda system: runs.result(f"reproduction_{system}")


@pytest.mark.release
def test_a_chain_with_the_trainer_ends_with_a_report_and_is_done_afterwards(reproduced):
    found = reproduced(TRAINED)
    run = found.workspace / "runs" / "vrag_rl_qwen2_5_vl_7b"
    tracker = run / "checkpoints" / "latest_checkpointed_iteration.txt"
    assert tracker.read_text().strip() == "2"
    assert list(read_trajectories(run / "trajectories" / "2.jsonl"))
    report = json.loads((found.workspace / "report" / "report.json").read_text(encoding="utf-8"))
    questions = read_parquet(found.workspace / "data" / "test.parquet")
    assert [each["trajectories"] for each in report["runs"]] == [len(questions)]
    assert "57.1" in (found.workspace / "report" / "report.md").read_text(encoding="utf-8")
    heads = [line for line in found.said.splitlines() if line.startswith("[")]
    assert heads
    assert all(line.endswith(": done") for line in heads)


@pytest.mark.parametrize(
    "system",
    [
        system if system == IN_EVERY_TEST else pytest.param(system, marks=pytest.mark.release)
        for system in OTHERS
    ],
)
def test_a_chain_without_the_trainer_ends_with_an_evaluation(reproduced, system):
    found = reproduced(system)
    report = json.loads((found.workspace / "report" / "report.json").read_text(encoding="utf-8"))
    questions = read_parquet(found.workspace / "data" / "test.parquet")
    assert [each["trajectories"] for each in report["runs"]] == [len(questions)]
    heads = [line for line in found.said.splitlines() if line.startswith("[")]
    assert heads
    assert all(line.endswith(": done") for line in heads)
