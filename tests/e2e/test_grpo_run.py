"""A GRPO run is killed at a checkpoint and before a validation, resumed, and examined from all
sides.
"""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.seals import read_seal
from docagent_rl.checkpoints.audit import audit_run
from docagent_rl.checkpoints.manifest import read_tracker
from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.conftest import RECIPE
from tests.e2e.grpo import STEPS, VALIDATED, played_by
from tests.e2e.identity import agreement, images

KINDS = (("trajectories", "jsonl"), ("metrics", "json"), ("credit", "parquet"))
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
    "docagent/prefill_ratio",
    "docagent/workers/cache_playing",
]


@pytest.fixture(scope="module")
def run(runs):
    return runs.result(RECIPE)


def trajectories(run, agent=None):
    played = run.trajectories(*range(1, STEPS + 1))
    return played if agent is None else played_by(agent, run, played)


def test_it_resumes_from_the_last_whole_checkpoint(run):
    """The second checkpoint was being saved when the run was killed, and the tracker was
    emptied.
    """
    checkpoints = run.run_dir / "checkpoints"
    said = (run.folder / "second.txt").read_text(errors="replace")
    log = (run.run_dir / "console.log").read_text(errors="replace")
    chosen = f"the run resumes from {checkpoints}/global_step_1, the last intact one"
    assert f"is empty: {chosen}" in said
    assert log.count("Training from scratch") == 1
    assert f"Resuming from {checkpoints}/global_step_1, setting global step to 1" in log
    assert not (checkpoints / f"global_step_{STEPS + 1}").exists()
    for step in range(1, STEPS + 1):
        run.checkpoint(step)
    assert read_tracker(checkpoints) == STEPS


def test_a_step_is_archived_before_its_checkpoint_is_saved(run):
    """The second step, which the killed run could not save, was repeated; its first archive was
    kept.
    """
    old = run.run_dir / "superseded" / "1"
    lost = list(read_trajectories(old / "trajectories" / "2.jsonl"))
    again = run.trajectories(2)
    assert len(lost) == len(again) == 16
    assert {t.uid for t in lost}.isdisjoint(t.uid for t in again)
    assert all(turn.trainer_log_probs for t in lost for turn in t.turns if not t.masked)
    metrics = json.loads((old / "metrics" / "2.json").read_text())
    assert metrics["docagent/interrupted"] == 1
    assert metrics["docagent/trajectories/asked"] == metrics["docagent/trajectories/trained"] == 16
    assert {"actor/grad_norm", "critic/score/mean", "training/global_step"} <= set(metrics)


def test_the_missing_validation_is_made_up_for(run):
    """The next start finds every step trained, and has nothing to train."""
    *_, second, third = run.logged_by_start
    assert f"step:{STEPS} " not in second
    assert not (run.run_dir / "superseded" / "2").exists()
    assert f"all {STEPS} steps have been trained: nothing is left to do" in run.said
    assert any(name.startswith("val-core/") for name in run.metrics(STEPS))
    assert f"\nstep {STEPS}/{STEPS}  reward " in run.said
    lines = [line for line in third.splitlines() if f"step:{STEPS} " in line]
    assert [line for line in lines if "docagent/interrupted:1.0" in line]


def test_everything_that_it_wrote_is_sealed_after_two_kills(run):
    audit, known = audit_run(run.run_dir), read_seal(run.run_dir).records
    assert (audit.damages, audit.unsealed) == ([], [])
    steps = range(1, STEPS + 1)
    assert {f"{folder}/{step}.{kind}" for step in steps for folder, kind in KINDS} <= set(known)
    assert {f"hydra/{name}.yaml" for name in ("config", "hydra", "overrides")} <= set(known)
    assert {f"checkpoints/global_step_{step}/manifest.json" for step in steps} <= set(known)
    assert "superseded/1/trajectories/2.jsonl" in known
    stored = OmegaConf.load(run.run_dir / "hydra" / "config.yaml").docagent
    assert Path(stored.workspace).is_absolute()


def test_every_trajectory_is_accounted_for(run):
    for step in range(1, STEPS + 1):
        metrics = run.metrics(step)
        assert len(run.trajectories(step)) == metrics["docagent/trajectories/asked"] == 16
        # the validation of the last step was made up by the next start
        assert ("docagent/interrupted" in metrics) == (step == STEPS)
        assert metrics.get("timing_s/save_checkpoint", 0) > 0 or step == STEPS


def test_every_number_is_in_the_metrics(run):
    for step in range(1, STEPS + 1):
        metrics = run.metrics(step)
        assert not [name for name in METRICS if name not in metrics], step
        assert metrics["docagent/masked_trajectories"] == 0
        # those that ended before have given their room in the KV cache back
        assert 0 < metrics["docagent/workers/cache_playing"] <= len(run.trajectories(step))
        assert metrics["actor/grad_norm"] >= 0
    for step in (0, STEPS):
        metrics = run.metrics(f"val-{step}")
        assert any(name.startswith("val-core/") for name in metrics), step
        assert metrics["val-aux/docagent/turns"] >= 1


def test_a_validation_question_that_cannot_be_played_is_wrong_and_reported(run):
    for step in (0, STEPS):
        metrics = run.metrics(f"val-{step}")
        trajectories = run.trajectories(f"val-{step}")
        assert [t.end for t in trajectories if t.masked] == ["sample"]
        ((core, score),) = [
            (name, value) for name, value in metrics.items() if name.startswith("val-core/")
        ]
        assert core.endswith("/reward/mean@1")
        assert score == pytest.approx(sum(t.reward for t in trajectories) / VALIDATED)
        source = core.split("/")[1]
        assert metrics[f"val-aux/{source}/played/mean@1"] == pytest.approx(1 - 1 / VALIDATED)
        assert metrics["val-aux/docagent/masked/sample"] == 1
        assert metrics["val-aux/docagent/masked/missing"] == 0
    assert f"data.val_files: 1 of {VALIDATED} questions cannot be played" in run.said


def test_the_policy_changes(run):
    assert max(run.metrics(step)["actor/grad_norm"] for step in range(1, STEPS + 1)) > 0


def test_server_and_trainer_agree_token_by_token(run):
    """Trajectories have images of several sizes, and some have several images."""
    played = trajectories(run, "docagent")
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
    """There are as many preprocessings as distinct images since the process started, not as many as
    images were shown.
    """
    resumed = [t for t in trajectories(run) if t.step > 1]
    shown = [json.dumps(p["image"]) for t in resumed for turn in t.turns for m in turn.observation
             for p in m["parts"] if "image" in p]  # fmt: skip
    assert sum(t.image_preprocessings for t in resumed) <= len(set(shown)) < len(shown)


def test_rows_name_their_images_while_a_step_goes_on(run):
    for step in range(1, STEPS + 1):
        assert run.metrics(step)["docagent/workers/image_cache_in_rows"] > 0


def test_files_hold_no_pixels(run):
    for file in (run.run_dir / "trajectories").iterdir():
        text = file.read_text()
        assert "base64" not in text
        assert "pixel_values" not in text
