"""The recorder of everything in a trajectory except its tokens."""

import time

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    EndReason,
    Observation,
    OutcomeMetrics,
    RewardTerms,
    StepResult,
    TextPart,
    TokenTerm,
)
from docagent_rl.envs.outcome import Outcome
from docagent_rl.envs.search_log import SearchNote, note_search
from docagent_rl.envs.turn_record import TurnRecord, WrittenAnswer
from docagent_rl.retrieval import Hit
from docagent_rl.rollout.recorder import Recorder, listening, new_trajectory
from docagent_rl.rollout.trajectory import TrajectoryTurn
from docagent_rl.samples.sample import Sample, Split

SAMPLE = Sample("q", "mine", Split.TRAIN, "d", "What?", ("x",), evidence_pages=(2,))


def searched(*pages: int) -> SearchNote:
    hits = [Hit(PageRef("d", page), 1.0) for page in pages]
    return SearchNote("retriever", "words", "d", len(pages), frozenset(), hits, 0.1)


class Noting:
    """An environment that searches according to a list, and returns given metrics."""

    outcome_metrics = OutcomeMetrics("right", "form", 0.0)
    reward_function = None

    def __init__(self, searches, outcome=None, **metrics):
        self.searches, self.said, self.numbers = list(searches), outcome, metrics

    async def step(self, turn):
        for pages in self.searches.pop(0):
            note_search(searched(*pages))
        return StepResult(
            Observation.user(TextPart("go on")), record=TurnRecord(own={"said": turn.text})
        )

    def outcome(self):
        return self.said

    def trajectory_text(self):
        return "the whole"

    def metrics(self):
        return self.numbers


async def played(env, turns=2):
    """Return a recorder of some turns, none of which is closed."""
    recorder = Recorder(env, new_trajectory(SAMPLE, 3, "mine"))
    with recorder.recording():
        for number in range(turns):
            recorder.trajectory.turns.append(
                TrajectoryTurn(f"turn {number}", "end_of_turn", [1], [])
            )
            result = await recorder.step(AssistantTurn(f"turn {number}"))
            assert result.record.own == {"said": f"turn {number}"}
    return recorder


def test_a_trajectory_outside_training_is_of_validation():
    made = new_trajectory(SAMPLE, 3, "mine")
    assert (made.uid, made.number, made.step, made.split, made.system) == ("q", 3, 0, "val", "mine")
    assert made.sample == SAMPLE.to_dict()


async def test_each_turn_has_its_own_searches():
    began = time.perf_counter()
    recorder = await played(Noting([[(1,), (2, 3)], []]))
    elapsed = time.perf_counter() - began
    first, second = recorder.trajectory.turns
    assert [[page for page, _ in search["hits"]] for search in first.searches] == [
        ["d#1"],
        ["d#2", "d#3"],
    ]
    assert second.searches == []
    assert (first.record, second.info["said"]) == (TurnRecord(own={"said": "turn 0"}), "turn 1")
    assert 0 <= first.seconds["step"] <= elapsed
    note_search(searched(1))  # nobody listens any more
    assert recorder.notes == []


async def test_listeners_hear_of_each_turn_while_they_listen():
    heard = []
    with listening(lambda trajectory: heard.append(len(trajectory.turns))):
        await played(Noting([[], []]))
    assert heard == [1, 2]
    await played(Noting([[], []]))
    assert heard == [1, 2]


async def test_terms_of_one_name_add_up_and_others_are_noted_beside_them():
    recorder = await played(Noting([[]]), turns=1)
    twice = [TokenTerm("penalty", (0, 1), -0.5, 2.0), TokenTerm("penalty", (1, 2), -0.25, 1.0)]
    recorder.reward(RewardTerms({"bonus": 3.0}, 1.5, tuple(twice)))
    recorder.reward(RewardTerms({"late": 1.0}, 1.0))
    (turn,) = recorder.trajectory.turns
    assert turn.terms == {"penalty": -0.75, "bonus": 3.0, "late": 1.0}
    assert turn.reward == pytest.approx(1.5 - 1.0 - 0.25 + 1.0)


async def test_the_end_has_the_numbers_of_environment_and_searches():
    env = Noting([[(1,)], [(2, 1)], []], WrittenAnswer("x", pages=(3,)), right=0.75, form=-1.0)
    recorder = await played(env, turns=3)
    recorder.close(EndReason.CONTEXT_FULL, SAMPLE)
    made = recorder.trajectory
    assert (made.end, made.status, made.text) == ("context_full", "unfinished", "the whole")
    assert (made.outcome, made.well_formed) == (Outcome.of(0.75), False)
    assert made.turns[-1].record.written == WrittenAnswer("x", pages=(3,))
    assert all("outcome" not in turn.info for turn in made.turns[:-1])
    recall = {name: made.metrics[f"retriever/turn_recall/{name}"] for name in (1, 2)}
    assert recall == {1: 0.0, 2: 1.0}
    assert made.metrics["right"] == 0.75


async def test_an_end_without_turns_has_no_outcome_to_note():
    recorder = await played(Noting([], WrittenAnswer("x")), turns=0)
    recorder.close(EndReason.ANSWERED, SAMPLE)
    assert (recorder.trajectory.status, recorder.trajectory.outcome) == (
        "finished",
        Outcome.of(None),
    )
    silent = await played(Noting([[]]), turns=1)
    silent.close(EndReason.ANSWERED, SAMPLE)
    assert "outcome" not in silent.trajectory.turns[0].info
