import pytest
from pydantic import TypeAdapter, ValidationError

from docagent_rl.envs.base import OutcomeMetrics
from docagent_rl.envs.outcome import (
    ACCURACY,
    NO_ANSWER,
    UNJUDGED,
    UNJUDGED_SHARE,
    Outcome,
    OutcomeState,
)


@pytest.mark.parametrize(
    ("score", "state", "term", "metrics"),
    [
        (1.0, OutcomeState.RIGHT, 1.0, {ACCURACY: 1.0, UNJUDGED_SHARE: 0.0}),
        (0.5, OutcomeState.RIGHT, 0.5, {ACCURACY: 1.0, UNJUDGED_SHARE: 0.0}),
        (0.49, OutcomeState.WRONG, 0.49, {ACCURACY: 0.0, UNJUDGED_SHARE: 0.0}),
        (0.0, OutcomeState.WRONG, 0.0, {ACCURACY: 0.0, UNJUDGED_SHARE: 0.0}),
        (None, OutcomeState.UNJUDGED, 0.0, {UNJUDGED_SHARE: 1.0}),
    ],
)
def test_an_answer_is_right_wrong_or_unjudged(score, state, term, metrics):
    outcome = Outcome.of(score)
    assert (outcome.state, outcome.score, outcome.term) == (state, score, term)
    assert outcome.metrics() == metrics


def test_no_answer_is_wrong_and_an_unjudged_one_is_not():
    assert NO_ANSWER.state is OutcomeState.WRONG
    assert UNJUDGED.state is OutcomeState.UNJUDGED


@pytest.mark.parametrize(
    ("state", "score"),
    [(OutcomeState.RIGHT, 0.2), (OutcomeState.WRONG, None), (OutcomeState.UNJUDGED, 0.0)],
)
def test_a_state_that_is_not_that_of_its_score_is_refused(state, score):
    with pytest.raises(ValueError, match=f"is not {state.value}"):
        Outcome(state, score)


def test_a_trajectory_without_the_number_of_its_system_is_unjudged():
    marks = OutcomeMetrics("judge_score")
    assert marks.outcome_of({"judge_score": 1.0}) == Outcome.of(1.0)
    assert marks.outcome_of({"reward/outcome": 0.0}) == UNJUDGED
    assert OutcomeMetrics().outcome_of({"judge_score": 1.0}) is None


def test_a_recorded_outcome_holds_a_state_and_a_score():
    read = TypeAdapter(Outcome).validate_json
    assert read('{"state": "right", "score": 0.5}') == Outcome.of(0.5)
    assert read('{"state": "unjudged", "score": null}') == UNJUDGED
    for text, named in (
        ('{"state": "right", "score": 1.0, "judge": "me"}', "judge"),
        ('{"state": "right", "score": "1"}', "score"),
        ('{"state": "right"}', "score"),
        ('{"state": "fair", "score": 0.5}', "state"),
    ):
        with pytest.raises(ValidationError, match=named):
            read(text)
