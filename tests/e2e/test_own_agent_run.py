"""`init` and `run`: from two PDFs to a trained agent with a report, on the CPU."""

import json

import pytest

from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.samples.parquet import read_parquet
from tests.e2e.own_agent import STEPS

RECIPE = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture(scope="module")
def own(runs):
    return runs.result("own_agent")


def test_the_agent_is_trained_on_the_documents_and_scored(own):
    run = own.folder / "runs" / RECIPE
    tracker = run / "checkpoints" / "latest_checkpointed_iteration.txt"
    assert tracker.read_text().strip() == str(STEPS)
    assert list(read_trajectories(run / "trajectories" / f"{STEPS}.jsonl"))
    questions = read_parquet(own.folder / "data" / "val.parquet")
    report = json.loads((own.folder / "report" / "report.json").read_text(encoding="utf-8"))
    assert [each["trajectories"] for each in report["runs"]] == [len(questions)]


def test_it_says_what_to_type_next_and_is_done_afterwards(own):
    assert "still a placeholder" in own.said
    for said in (own.said, own.repeated):
        assert f"docagent-rl view {own.folder / 'runs' / RECIPE}" in said
    heads = [line for line in own.repeated.splitlines() if line.startswith("[")]
    assert heads
    assert all(line.endswith(": done") for line in heads)
