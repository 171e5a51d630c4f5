"""One GRPO run: killed after its first checkpoint, resumed, and looked at from all sides."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.grpo import STEPS
from tests.e2e.identity import agreement, images

METRICS = [
    *(f"docagent/reward/{term}" for term in ("retrieval_ndcg", "outcome", "format", "total")),
    "docagent/turns",
    "docagent/invalid_action_rate",
    "docagent/finished",
    "docagent/pages_seen",
    "docagent/retrieval_recall",
    "docagent/masked_trajectories",
    "docagent/image_preprocessings",
]


@pytest.fixture(scope="module")
def run(runs):
    return runs.result("grpo")


def sessions(run, agent=None):
    names = {}
    table = pq.read_table(run.folder / "train.parquet").to_pylist()
    for row in table:
        names[json.loads(row["record"])["question_id"]] = row["agent_name"]
    for step in range(1, STEPS + 1):
        for trajectory in read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl"):
            if agent is None or names[trajectory.record["question_id"]] == agent:
                yield trajectory


def test_it_resumes_from_the_last_checkpoint(run):
    log = run.log.read_text(errors="replace")
    assert "Training from scratch" in (run.folder / "first.txt").read_text(errors="replace")
    assert "Resuming from" in log
    assert (run.run_dir / "checkpoints" / f"global_step_{STEPS}").is_dir()
    assert not (run.run_dir / "checkpoints" / f"global_step_{STEPS + 1}").exists()


def test_every_number_is_in_the_metrics(run):
    for step in range(1, STEPS + 1):
        metrics = json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())
        assert not [name for name in METRICS if name not in metrics], step
        assert metrics["docagent/masked_trajectories"] == 0
        assert metrics["actor/grad_norm"] >= 0
    for step in (0, STEPS):
        metrics = json.loads((run.run_dir / "metrics" / f"val-{step}.json").read_text())
        assert any(name.startswith("val-core/") for name in metrics), step
        assert metrics["val-aux/docagent/turns"] >= 1


def test_the_policy_changes(run):
    norms = [
        json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())["actor/grad_norm"]
        for step in range(1, STEPS + 1)
    ]
    assert max(norms) > 0


def test_server_and_trainer_agree_token_by_token(run):
    """Multi-turn trajectories with several images of different sizes."""
    chosen = [t for t in sessions(run, "docagent") if len(set(images(t))) >= 2]
    assert chosen
    result = agreement(chosen)
    assert result.tokens > 20
    assert result.holds, result
    everything = agreement(sessions(run, "docagent"))
    assert everything.holds, everything


def test_a_misplaced_image_breaks_the_agreement(run):
    chosen = [t for t in sessions(run, "misplaced") if images(t) and len(t.turns) > 1]
    assert chosen
    assert not agreement(chosen).holds


def test_trajectories_without_images_train_too(run):
    assert [t for t in sessions(run) if not images(t) and t.turns]


def test_rewards_are_what_the_rows_carry(run):
    for trajectory in sessions(run):
        assert trajectory.reward == pytest.approx(sum(turn.reward for turn in trajectory.turns))
        assert trajectory.reward == pytest.approx(trajectory.metrics["reward/total"])


def test_pages_are_preprocessed_once(run):
    """As many preprocessings as distinct images since the process started, not as many as were shown."""
    resumed = [t for t in sessions(run) if t.step > 1]
    shown = [json.dumps(p["image"]) for t in resumed for turn in t.turns for m in turn.observation
             for p in m["parts"] if "image" in p]  # fmt: skip
    assert sum(t.image_preprocessings for t in resumed) <= len(set(shown)) < len(shown)


def test_files_hold_no_pixels(run):
    for file in (run.run_dir / "trajectories").iterdir():
        text = file.read_text()
        assert "base64" not in text
        assert "pixel_values" not in text
