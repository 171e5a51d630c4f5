"""Metrics of a step's trajectories and of a validation's."""

import json
from types import SimpleNamespace

import pytest
import torch

from docagent_rl.envs.outcome import Outcome
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory, TrajectoryTurn
from docagent_rl.training.agent_loop.output import DIGEST, TRAJECTORY
from docagent_rl.training.trainer.accounts import TrajectoryFailedError
from docagent_rl.training.trainer.modes import DocAgentSync
from docagent_rl.training.trainer.summary import (
    mask_reasons,
    search_doubt,
    summarise,
    turn_report,
    unsought_doubt,
)

NOT_PLAYED = (MaskReason.SAMPLE, MaskReason.INFRASTRUCTURE, MaskReason.EMPTY)


def played(metrics=None, **kwargs):
    return Trajectory(
        "u", 0, 1, "train", {"question_id": "q"}, "vrag_rl", metrics=metrics or {}, **kwargs
    )


def test_searches_that_take_longer_than_the_policy_are_named():
    searches = [{"retriever": "bm25", "tries": 1, "seconds": 3.0}] * 2
    turns = [
        TrajectoryTurn("", "", [], [], seconds={"generate": 2.0, "step": 8.0, "encode": 1.0}),
        TrajectoryTurn("", "", [], [], seconds={"generate": 1.0}),
    ]
    idle = TrajectoryTurn("", "", [], [], seconds={"generate": 7.0, "step": 1.0})
    turns[0].searches = searches
    # two searches side by side: no longer than the step
    idle.searches = searches
    slow, quick = (TrajectoryDigest.of(played(turns=each)) for each in (turns, [idle]))
    found = summarise([slow])
    assert {name: found[f"docagent/time_share/{name}"] for name in ("generate", "search")} == {
        "generate": 0.25,
        "search": 0.5,
    }
    assert found["docagent/time_share/step"] == pytest.approx(2 / 12)
    assert found["docagent/time_share/encode"] == pytest.approx(1 / 12)
    assert "searches took 50% of the trajectories' time, and sampling 25%" in search_doubt(found)
    assert summarise([quick])["docagent/time_share/search"] == 0.125
    assert search_doubt(summarise([quick])) is None
    assert search_doubt({}) is None


def test_means_ranges_and_counts():
    turns = [TrajectoryTurn("", "", [], [])] * 3
    state = {"status": Status.MASKED.value, "end": "infrastructure", "error": "down"}
    masked = played({"reward/total": 9.0}, turns=turns, **state)
    trajectories = [
        played(
            {"reward/total": 1.0, "turns": 3.0},
            image_preprocessings=2,
            image_loads=3,
            prefill_new=80,
            prefill_computed=100,
        ),
        played({"reward/total": 0.0, "turns": 1.0}, attempts=2, replays=3),
        masked,
        masked,
    ]
    numbers = summarise(list(map(TrajectoryDigest.of, trajectories)))
    assert {name.removeprefix("docagent/"): value for name, value in numbers.items()} == {
        "reward/total": 0.5,
        "reward/total/min": 0.0,
        "reward/total/max": 1.0,
        "turns": 2.0,
        "masked/sample": 0.0,
        "masked/infrastructure": 2.0,
        "masked/empty": 0.0,
        "masked/failed": 0.0,
        "masked/turns": 3.0,
        "masked_trajectories": 2.0,
        "retried_trajectories": 1.0,
        "replayed_trajectories": 1.0,
        "image_preprocessings": 2.0,
        "image_loads": 3.0,
        "prefill_ratio": 1.25,
    }
    assert mask_reasons(trajectories) == {"infrastructure: down": 2}


def test_percentiles_are_those_of_all_searches_that_were_not_known():
    def searched(*seconds, known=()):
        rows = [{"retriever": "r", "tries": 1, "seconds": value} for value in seconds]
        rows += [{"retriever": "r", "tries": 0, "seconds": value} for value in known]
        return TrajectoryDigest.of(played(turns=[TrajectoryTurn("", "", [], [], searches=rows)]))

    digests = [searched(*range(51), known=[9e9]), searched(*range(51, 101))]
    metrics = summarise([TrajectoryDigest.from_json(digest.to_json()) for digest in digests])
    assert [metrics[f"docagent/r/p{n}_s"] for n in (50, 90, 99)] == [50.0, 90.0, 99.0]


def test_the_funnel_is_of_the_trajectories_whose_evidence_is_known():
    def found(page, evidence):
        effect = {"kind": "page", "pages": [{"page": f"r#{page}", "size": [9, 9]}]}
        info = {"action": {"kind": "fetch"}, "effect": effect, "valid": True, "executed": True}
        end = {
            "action": {"kind": "answer", "text": "x"},
            "effect": {"kind": "answer"},
            "executed": True,
        }
        turns = [TrajectoryTurn("t", "end_of_turn", [1], [0.0], info=each) for each in (info, end)]
        made = played({}, turns=turns)
        made.outcome = Outcome.of(1.0)
        made.sample = {"doc_id": "r", "question": "q", "evidence_pages": evidence}
        return TrajectoryDigest.of(made)

    metrics = summarise([found(3, [3]), found(2, [3]), found(9, [])])
    funnel = {name: value for name, value in metrics.items() if "funnel" in name}
    halves = ("found", "shown", "looked", "answered", "kept", "guessed", "read_whole")
    wanted = {
        **dict.fromkeys(halves, 0.5),
        "sought": 1.0,
        "right": 1.0,
        "unjudged": 0.0,
        "zoomed": 0.0,
        "as_text": 0.0,
    }
    assert funnel == {f"docagent/funnel/{name}": share for name, share in wanted.items()}
    assert not [name for name in summarise([]) if "funnel" in name]


@pytest.mark.parametrize(
    ("stages", "share"), [(["all", "found", "all"], 0.75), (["sought", "right", None], 0)]
)
def test_rewards_of_trajectories_that_looked_for_nothing_are_told(stages, share):
    """A trajectory of the first kind answers at once and gets at least a third of the reward of a
    right answer.
    """
    trajectories = [TrajectoryDigest.of(played(reward=reward)) for reward in (1.75, 1.0, 1.25)]
    for trajectory, stage in zip(trajectories, stages, strict=True):
        trajectory.evidence = (stage, None, None, None)
    numbers = summarise([*trajectories, TrajectoryDigest.of(played(reward=-1.0))])
    assert numbers["docagent/funnel/unsought_reward"] == share
    assert (unsought_doubt(numbers) is None) is (share == 0)


# a trajectory of two rows, whose second turn stands in its second row, and one of one row
KEYS = ["a_b_0_0", "a_b_0_1", "a_b_1_0"]
COLUMNS = {
    "response_mask": [[1, 1, 0], [1, 1, 0], [1, 0, 0]],
    "turn_index": [[0, 0, -1], [0, 0, -1], [0, -1, -1]],
    "rm_scores": [[0, 0.5, 0], [0, 1.0, 0], [-1.0, 0, 0]],
    "advantages": [[1.0, 3, 0], [4, 4, 0], [6, 0, 0]],
    "returns": [[0, 0.5, 0], [1, 1.0, 0], [-1.0, 0, 0]],
}


def turns(**changes):
    columns = {name: torch.tensor(rows) for name, rows in (COLUMNS | changes).items()}
    return turn_report(
        KEYS, [Trajectory("a_b", n, 1, "train", {}, "mine") for n in (0, 0, 1)], columns
    )


def test_turns_go_on_in_the_next_row():
    found = turns(values=[[9, 0.2, 9], [9, 0.4, 0], [0.6, 0, 0]])
    assert (found["turns/trajectories/1"], found["turns/trajectories/2"]) == (2, 1)
    assert found["turns/reward/1"] == pytest.approx(-0.25)
    assert found["turns/reward/2"] == pytest.approx(1.0)
    assert found["turns/advantage/1"] == pytest.approx(10 / 3)
    assert [found["turns/value/1"], found["turns/value/2"]] == pytest.approx([0.4, 0.4])


def trajectory(uid="u0", number=0, *, rewards=(1.0,), rows=None):
    """Return a trajectory whose turns have these rewards."""
    turns = [
        TrajectoryTurn("t", "end_of_turn", [1], [0.0], reward=reward, row=row)
        for reward, row in zip(rewards, rows or [0] * len(rewards), strict=True)
    ]
    made = Trajectory(
        uid, number, 7, "val", {"question_id": uid}, "vrag_rl", turns=turns, end="answered"
    )
    made.reward = sum(rewards)
    made.metrics = {"reward/outcome": made.reward, "turns": float(len(turns))}
    return made


def masked(uid, reason, number=0, *, paid=None):
    """Return a masked trajectory: one that was not played, or, with a reward, one with a single
    turn without tokens.
    """
    made = trajectory(
        uid, number, rewards=() if paid is None else (paid,), rows=() if paid is None else (-1,)
    )
    made.status, made.end, made.error, made.reward = Status.MASKED.value, reason.value, "why", 0.0
    if paid is None:
        made.metrics = {}
    return made


@pytest.fixture
def validate(tmp_path):
    """Return a function that computes verl's own validation metrics with this package's trainer,
    without their first part.
    """

    def run(trajectories, expected=None, rewards=None):
        trainer = object.__new__(DocAgentSync)
        trainer.docagent = SimpleNamespace(run_dir=tmp_path, keep_best=False)
        trainer.global_steps = 7
        lines = [None if s is None else s.to_json() for s in trajectories]
        digests = [None if s is None else TrajectoryDigest.of(s).to_json() for s in trajectories]
        infos = {
            "reward": rewards or [s.reward for s in trajectories],
            TRAJECTORY: lines,
            DIGEST: digests,
        }
        uids = [f"row{n}" if s is None else s.uid for n, s in enumerate(trajectories)]
        sources, ones = ["made"] * len(trajectories), [1] * len(trajectories)
        found = trainer._val_metrics_update(
            sources, uids, infos, ones, expected_acc_counts=expected
        )
        return {name.partition("/")[2]: value for name, value in found.items()}

    return run


def written(tmp_path):
    assert (tmp_path / "trajectories" / "val-7.jsonl").is_file()
    return json.loads((tmp_path / "metrics" / "val-7.json").read_text())


@pytest.mark.parametrize("reason", NOT_PLAYED)
def test_a_trajectory_that_cannot_be_played_is_wrong(validate, reason):
    metrics = validate([trajectory("a"), trajectory("b"), masked("c", reason), trajectory("d")])
    shares = {
        "reward": 0.75,
        "reward/outcome": 0.75,
        "reward_played": 1,
        "played": 0.75,
        "turns": 1,
    }
    assert (
        metrics.items() >= {f"made/{name}/mean@1": share for name, share in shares.items()}.items()
    )
    assert (
        metrics["docagent/masked_trajectories"] == metrics[f"docagent/masked/{reason.value}"] == 1
    )


def judged(uid, score):
    made = trajectory(uid)
    made.metrics |= Outcome.of(score).metrics()
    return made


@pytest.mark.parametrize("reason", NOT_PLAYED)
def test_accuracy_is_of_judged_answers_and_rises_by_nothing_that_was_not_played(validate, reason):
    played = [judged("a", 1.0), judged("b", 0.0), judged("c", None)]
    metrics = validate([*played, masked("d", reason)], {("made", uid): 1 for uid in "abcde"})
    # a, b, d and e, of which d was not played and e is missing; c is unjudged
    assert metrics["made/outcome/accuracy_of_judged/mean@1"] == 0.25
    assert metrics["made/outcome/unjudged/mean@1"] == 0.2
    assert metrics["docagent/outcome/accuracy_of_judged"] == 0.5
    assert metrics["docagent/outcome/unjudged"] == pytest.approx(1 / 3)


def test_trajectories_that_verl_dropped_are_wrong_by_data_source(validate):
    expected = {("made", "a"): 2, ("made", "b"): 2, ("other", "c"): 2}
    metrics = validate([trajectory("a", 0), trajectory("a", 1), trajectory("b", 1)], expected)
    assert metrics["made/reward/mean@2"] == 0.75
    assert metrics["other/reward/mean@2"] == metrics["other/reward/outcome/mean@2"] == 0
    assert metrics["made/reward_played/mean@2"] == 1
    assert metrics["docagent/masked/missing"] == metrics["docagent/masked_trajectories"] == 3


@pytest.mark.parametrize(("paid", "counted"), [(-1.0, -1.0), (0.5, 0.0)])
def test_a_control_token_at_once_saves_no_penalty_and_earns_nothing(validate, paid, counted):
    metrics = validate([masked("a", MaskReason.EMPTY, paid=paid), trajectory("b", rewards=(0.0,))])
    assert metrics["made/reward/mean@1"] == metrics["made/reward/outcome/mean@1"] == counted / 2
    assert metrics["made/turns/mean@1"] == 1


def test_all_rows_of_a_trajectory_count_and_others_keep_their_reward(validate):
    """verl passes the reward of the last row; rows of other agent loops have no trajectory."""
    several = trajectory("a", rewards=(0.25, 0.5, 0.125), rows=(0, 1, 2))
    assert validate([several], rewards=[0.125])["made/reward/mean@1"] == 0.875
    metrics = validate([None, masked("b", MaskReason.SAMPLE)], rewards=[0.5, 0.0])
    assert metrics["made/reward/mean@1"] == 0.25


def test_a_failed_trajectory_ends_the_run_after_the_validation_is_written(validate, tmp_path):
    with pytest.raises(TrajectoryFailedError, match=r"'b'.* 0 .* b, .* 7"):
        validate([trajectory("a"), masked("b", MaskReason.FAILED)])
    assert written(tmp_path)["val-aux/docagent/masked/failed"] == 1
    assert written(tmp_path)["val-core/made/reward/mean@1"] == 0.5
