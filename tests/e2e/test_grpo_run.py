"""One GRPO run: killed at a checkpoint and before a validation, resumed, and looked at from all sides."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from docagent_rl.checkpoints.inspection import State, inspect
from docagent_rl.checkpoints.manifest import CheckpointCheck, read_tracker
from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.grpo import STEPS, VALIDATED
from tests.e2e.identity import agreement, images

METRICS = [
    *(f"docagent/reward/{term}" for term in ("retrieval_ndcg", "outcome", "format", "total")),
    "docagent/turns",
    "docagent/invalid_action_rate",
    "docagent/finished",
    "docagent/pages_seen",
    "docagent/retrieval_recall",
    "docagent/masked_trajectories",
    *(f"docagent/masked/{reason}" for reason in ("sample", "infrastructure", "empty")),
    "docagent/image_preprocessings",
    "docagent/image_loads",
]


@pytest.fixture(scope="module")
def run(runs):
    return runs.result("grpo")


def trajectories(run, agent=None):
    names = {}
    table = pq.read_table(run.folder / "train.parquet").to_pylist()
    for row in table:
        names[json.loads(row["sample"])["question_id"]] = row["agent_name"]
    for step in range(1, STEPS + 1):
        for trajectory in read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl"):
            if agent is None or names[trajectory.sample["question_id"]] == agent:
                yield trajectory


def test_it_resumes_from_the_last_whole_checkpoint(run):
    """The second was being saved when the run was killed, and the tracker was emptied."""
    log, checkpoints = (run.folder / "second.txt").read_text(errors="replace"), run.run_dir / "checkpoints"
    assert "Training from scratch" in (run.folder / "first.txt").read_text(errors="replace")
    assert f"is empty: the run goes on from {checkpoints}/global_step_1, the last whole one" in log
    assert f"Resuming from {checkpoints}/global_step_1, setting global step to 1" in log
    assert not (checkpoints / f"global_step_{STEPS + 1}").exists()
    for step in range(1, STEPS + 1):
        verdict = inspect(checkpoints / f"global_step_{step}", CheckpointCheck.FULL)
        assert verdict.state is State.WHOLE, verdict
    assert read_tracker(checkpoints) == STEPS


def test_a_step_is_archived_before_its_checkpoint_is_saved(run):
    """The second step, which the killed run could not save, was done again; its first archive was kept."""
    old = run.run_dir / "superseded" / "1"
    lost = list(read_trajectories(old / "trajectories" / "2.jsonl"))
    again = list(read_trajectories(run.run_dir / "trajectories" / "2.jsonl"))
    assert len(lost) == len(again) == 16
    assert {t.uid for t in lost}.isdisjoint(t.uid for t in again)
    assert all(turn.trainer_log_probs for t in lost for turn in t.turns if not t.masked)
    metrics = json.loads((old / "metrics" / "2.json").read_text())
    assert metrics["docagent/interrupted"] == 1
    assert metrics["docagent/trajectories/asked"] == metrics["docagent/trajectories/trained"] == 16
    assert {"actor/grad_norm", "critic/score/mean", "training/global_step"} <= set(metrics)


def test_the_missing_validation_is_made_up_for(run):
    """The next start finds every step trained, and nothing to train."""
    assert f"step:{STEPS} " not in (run.folder / "second.txt").read_text(errors="replace")
    assert not (run.run_dir / "superseded" / "2").exists()
    log = run.log.read_text(errors="replace")
    assert f"all {STEPS} steps are trained: there is nothing left to do" in log
    metrics = json.loads((run.run_dir / "metrics" / f"{STEPS}.json").read_text())
    assert any(name.startswith("val-core/") for name in metrics)
    lines = [line for line in log.splitlines() if f"step:{STEPS} " in line]
    assert [line for line in lines if "docagent/interrupted:1.0" in line]


def test_every_trajectory_is_accounted_for(run):
    for step in range(1, STEPS + 1):
        metrics = json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())
        trajectories = list(read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl"))
        assert len(trajectories) == metrics["docagent/trajectories/asked"] == 16
        # the validation of the last step was made up by the next start
        assert ("docagent/interrupted" in metrics) == (step == STEPS)
        assert metrics.get("timing_s/save_checkpoint", 0) > 0 or step == STEPS


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


def test_a_validation_question_that_cannot_be_played_is_wrong_and_reported(run):
    for step in (0, STEPS):
        metrics = json.loads((run.run_dir / "metrics" / f"val-{step}.json").read_text())
        trajectories = list(read_trajectories(run.run_dir / "trajectories" / f"val-{step}.jsonl"))
        assert [t.end for t in trajectories if t.masked] == ["sample"]
        ((core, score),) = [(name, value) for name, value in metrics.items() if name.startswith("val-core/")]
        assert core.endswith("/reward/mean@1")
        assert score == pytest.approx(sum(t.reward for t in trajectories) / VALIDATED)
        source = core.split("/")[1]
        assert metrics[f"val-aux/{source}/played/mean@1"] == pytest.approx(1 - 1 / VALIDATED)
        assert metrics["val-aux/docagent/masked/sample"] == 1
        assert metrics["val-aux/docagent/masked/missing"] == 0
    log = run.log.read_text(errors="replace")
    assert f"data.val_files: 1 of {VALIDATED} questions cannot be played" in log


def test_the_policy_changes(run):
    norms = [
        json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())["actor/grad_norm"]
        for step in range(1, STEPS + 1)
    ]
    assert max(norms) > 0


def test_server_and_trainer_agree_token_by_token(run):
    """Images of several sizes, and several of them in a trajectory."""
    played = list(trajectories(run, "docagent"))
    assert len({size for t in played for size in images(t)}) > 1
    chosen = [t for t in played if len(images(t)) > 1]
    assert chosen
    for some in (chosen, played):
        result = agreement(some)
        assert result.tokens > 20
        assert result.holds, result


def test_a_misplaced_image_breaks_the_agreement(run):
    chosen = [t for t in trajectories(run, "misplaced") if images(t) and len(t.turns) > 1]
    assert chosen
    assert not agreement(chosen).holds


def test_trajectories_without_images_train_too(run):
    assert [t for t in trajectories(run) if not images(t) and t.turns]


def test_rewards_are_what_the_rows_carry(run):
    for trajectory in trajectories(run):
        assert trajectory.reward == pytest.approx(sum(turn.reward for turn in trajectory.turns))
        assert trajectory.reward == pytest.approx(trajectory.metrics["reward/total"])


def test_pages_are_preprocessed_once(run):
    """As many preprocessings as distinct images since the process started, not as many as were shown."""
    resumed = [t for t in trajectories(run) if t.step > 1]
    shown = [json.dumps(p["image"]) for t in resumed for turn in t.turns for m in turn.observation
             for p in m["parts"] if "image" in p]  # fmt: skip
    assert sum(t.image_preprocessings for t in resumed) <= len(set(shown)) < len(shown)


def test_rows_name_their_images_while_a_step_goes_on(run):
    for step in range(1, STEPS + 1):
        metrics = json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())
        assert metrics["docagent/workers/image_cache_in_rows"] > 0


def test_files_hold_no_pixels(run):
    for file in (run.run_dir / "trajectories").iterdir():
        text = file.read_text()
        assert "base64" not in text
        assert "pixel_values" not in text
