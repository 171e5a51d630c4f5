from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest

from docagent_rl.config import TextConfig
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory, TrajectoryTurn
from docagent_rl.training.agent_loop.output import DIGEST, TRAJECTORY
from docagent_rl.training.trainer.accounts import SessionFailedError
from docagent_rl.training.trainer.modes import DocAgentSync
from docagent_rl.training.trainer.summary import summarise
from docagent_rl.training.trainer.texts import digest
from docagent_rl.training.trainer.validation import validation_table


def session(uid="u0", number=0, *, masked=None, rewards=(1.0,), rows=None, metrics=None):
    """A session whose turns were paid `rewards`, masked for a reason or not at all."""
    turns = [
        TrajectoryTurn("t", "end_of_turn", [1], [0.0], reward=reward, row=row)
        for reward, row in zip(rewards, rows or [0] * len(rewards), strict=True)
    ]
    status = Status.MASKED if masked else Status.FINISHED
    total = sum(rewards)
    numbers = {"reward/outcome": total, "turns": float(len(turns))} if metrics is None else metrics
    return Trajectory(
        uid, number, 7, "val", {"question_id": uid}, "vrag_rl", status=status.value, turns=turns,
        end=masked.value if masked else "answered", error="why" if masked else None,
        metrics={} if masked and metrics is None else numbers, reward=0.0 if masked else total,
    )  # fmt: skip


def unplayed(uid, reason, number=0):
    return session(uid, number, masked=reason, rewards=())


def validate(tmp_path, sessions, expected=None, sources=None, rewards=None):
    """verl's own validation metrics, by the trainer of this package; and what was written."""
    trainer = object.__new__(DocAgentSync)
    trainer.docagent = SimpleNamespace(run_dir=tmp_path, keep_best=False)
    trainer.global_steps = 7
    lines = [None if s is None else s.to_json() for s in sessions]
    digests = [None if s is None else digest(s, TextConfig()).to_json() for s in sessions]
    infos = {"reward": rewards or [s.reward for s in sessions], TRAJECTORY: lines, DIGEST: digests}
    return trainer._val_metrics_update(
        sources or ["made"] * len(sessions),
        [f"row{n}" if s is None else s.uid for n, s in enumerate(sessions)],
        infos,
        [1] * len(sessions),
        expected_acc_counts=expected,
    )


@pytest.mark.parametrize("reason", [MaskReason.SAMPLE, MaskReason.INFRASTRUCTURE, MaskReason.EMPTY])
def test_a_session_that_cannot_be_played_is_wrong(tmp_path, reason):
    metrics = validate(tmp_path, [session("a"), session("b"), unplayed("c", reason), session("d")])
    assert metrics["val-core/made/reward/mean@1"] == 0.75
    assert metrics["val-aux/made/reward/outcome/mean@1"] == 0.75
    assert metrics["val-aux/made/reward_played/mean@1"] == 1
    assert metrics["val-aux/made/played/mean@1"] == 0.75
    assert metrics["val-aux/made/turns/mean@1"] == 1
    assert metrics["val-aux/docagent/masked_trajectories"] == 1
    assert metrics[f"val-aux/docagent/masked/{reason.value}"] == 1


def test_a_group_with_a_masked_session_counts_with_all_its_sessions(tmp_path):
    sessions = [session("a", 0), unplayed("a", MaskReason.SAMPLE, 1), session("b", 0), session("b", 1)]
    metrics = validate(tmp_path, sessions)
    assert metrics["val-core/made/reward/mean@2"] == 0.75
    assert "val-aux/made/reward/mean@1" not in metrics


def test_sessions_that_verl_dropped_are_wrong_by_data_source(tmp_path):
    expected = {("made", "a"): 2, ("made", "b"): 2, ("other", "c"): 2}
    metrics = validate(tmp_path, [session("a", 0), session("a", 1), session("b", 1)], expected)
    assert metrics["val-core/made/reward/mean@2"] == 0.75
    assert metrics["val-core/other/reward/mean@2"] == 0
    assert metrics["val-aux/other/reward/outcome/mean@2"] == 0
    assert metrics["val-aux/made/reward_played/mean@2"] == 1
    assert metrics["val-aux/docagent/masked/missing"] == 3
    assert metrics["val-aux/docagent/masked_trajectories"] == 3


def test_the_score_never_rises_when_sessions_vanish(tmp_path):
    played = [session("a", rewards=(0.5,)), session("b", rewards=(0.25,)), session("c", rewards=(0.0,))]
    expected = {("made", s.uid): 1 for s in played}
    best = validate(tmp_path, played, expected)["val-core/made/reward/mean@1"]
    for gone in range(3):
        rest = [s for n, s in enumerate(played) if n != gone]
        assert validate(tmp_path, rest, expected)["val-core/made/reward/mean@1"] <= best
        for reason in (MaskReason.SAMPLE, MaskReason.INFRASTRUCTURE, MaskReason.EMPTY):
            masked = [*rest, unplayed(played[gone].uid, reason)]
            assert validate(tmp_path, masked, expected)["val-core/made/reward/mean@1"] <= best


@pytest.mark.parametrize(("paid", "counted"), [(-1.0, -1.0), (0.5, 0.0)])
def test_a_control_token_at_once_saves_no_penalty_and_earns_nothing(tmp_path, paid, counted):
    numbers = {"reward/outcome": paid, "turns": 1.0}
    empty = session("a", masked=MaskReason.EMPTY, rewards=(paid,), rows=(-1,), metrics=numbers)
    metrics = validate(tmp_path, [empty, session("b", rewards=(0.0,))])
    assert metrics["val-core/made/reward/mean@1"] == counted / 2
    assert metrics["val-aux/made/reward/outcome/mean@1"] == counted / 2
    assert metrics["val-aux/made/turns/mean@1"] == 1


def test_all_rows_of_a_session_count(tmp_path):
    """verl hands over the reward of the last row."""
    several = session("a", rewards=(0.25, 0.5, 0.125), rows=(0, 1, 2))
    metrics = validate(tmp_path, [several], rewards=[0.125])
    assert metrics["val-core/made/reward/mean@1"] == 0.875


def test_sessions_of_other_loops_keep_their_reward(tmp_path):
    metrics = validate(tmp_path, [None, unplayed("b", MaskReason.SAMPLE)], rewards=[0.5, 0.0])
    assert metrics["val-core/made/reward/mean@1"] == 0.25
    alone = validate(tmp_path, [None], rewards=[0.5])
    assert alone["val-core/made/reward/mean@1"] == 0.5


def test_the_reasons_stand_in_the_log_and_in_the_file(tmp_path, caplog):
    sessions = [session("a"), unplayed("b", MaskReason.SAMPLE), unplayed("c", MaskReason.SAMPLE)]
    with caplog.at_level(logging.WARNING):
        validate(tmp_path, sessions, {("made", uid): 1 for uid in "abcd"})
    said = [record.getMessage() for record in caplog.records]
    assert any("2 of 4" in line and "sample: why" in line for line in said)
    assert any("1 of 4" in line and "missing" in line for line in said)
    written = json.loads((tmp_path / "metrics" / "val-7.json").read_text())
    assert written["val-aux/docagent/masked/sample"] == 2
    assert written["val-core/made/reward/mean@1"] == 0.25


def test_a_clean_validation_reports_zeros(tmp_path):
    metrics = validate(tmp_path, [session("a"), session("b")], {("made", "a"): 1, ("made", "b"): 1})
    assert metrics["val-core/made/reward/mean@1"] == metrics["val-aux/made/reward_played/mean@1"] == 1
    assert all(metrics[f"val-aux/docagent/masked/{reason.value}"] == 0 for reason in MaskReason)


def test_what_verl_gathered_is_left_alone():
    sources, uids, columns = ["made"], ["a"], {"reward": [1.0]}
    table = validation_table(sources, uids, columns, [session("a")], {("made", "b"): 1})
    assert (sources, uids, columns) == (["made"], ["a"], {"reward": [1.0]})
    assert (table.uids, table.columns["reward"], table.missing) == (["a", "b"], [1.0, 0.0], 1)


def test_training_counts_masked_sessions_by_reason():
    sessions = [session(), unplayed("b", MaskReason.EMPTY), unplayed("c", MaskReason.SAMPLE)]
    metrics = summarise([*sessions, unplayed("d", MaskReason.SAMPLE)])
    assert metrics["docagent/masked/sample"] == 2
    assert metrics["docagent/masked/empty"] == 1
    assert metrics["docagent/masked/infrastructure"] == 0
    assert metrics["docagent/masked_trajectories"] == 3


def test_a_failed_session_ends_the_run_after_the_validation_is_written(tmp_path):
    with pytest.raises(SessionFailedError, match=r"'b'.* 0 .* b, .* 7"):
        validate(tmp_path, [session("a"), unplayed("b", MaskReason.FAILED)])
    assert (tmp_path / "trajectories" / "val-7.jsonl").is_file()
    written = json.loads((tmp_path / "metrics" / "val-7.json").read_text())
    assert written["val-aux/docagent/masked/failed"] == 1
    assert written["val-core/made/reward/mean@1"] == 0.5
