"""A user's system has everything: its funnel, its outcome, and what `collect` keeps of it."""

from dataclasses import replace

import pytest

from custom_system import SYSTEM
from docagent_rl.envs.base import OutcomeMetrics
from docagent_rl.envs.outcome import Outcome
from docagent_rl.lab.agents.texts import play_texts, whole_turn
from docagent_rl.lab.collect.case import case_of
from docagent_rl.lab.collect.filters import AnswerFilter, EvidenceFilter, Format, Scoring
from docagent_rl.rollout.evidence import Branch, Stage
from docagent_rl.rollout.recorder import new_trajectory
from tests.lab.agents.stage import resources

FILTERS = (
    Format(),
    AnswerFilter(by=Scoring.OUTCOME),
    AnswerFilter(),
    EvidenceFilter(unknown=False),
)


@pytest.fixture
def played(world):
    shared = resources(world, "custom_system:SYSTEM", judge={"kind": "exact"})

    async def play(answer, names=SYSTEM.outcome_metrics):
        shared.system, sample = replace(SYSTEM, outcome_metrics=names), world.samples[1]
        texts = [
            f"<search>{sample.question}</search>",
            f"<answer>{answer or sample.answers[0]}</answer>",
        ]

        async def write(trajectory):
            return whole_turn(texts[len(trajectory.turns)])

        return await play_texts(
            shared.environment(), sample, write, new_trajectory(sample, 0, "one_look")
        )

    return play


async def test_a_right_trajectory_is_kept_and_a_wrong_one_is_lost_where_it_fails(played):
    right, wrong = await played(""), await played("no such thing")
    found = right.evidence
    assert (found.stage, found.right, found.branch) == (Stage.RIGHT, True, Branch.WHOLE)
    assert (wrong.evidence.stage, wrong.outcome) == (Stage.KEPT, Outcome.of(0.0))
    assert [each.keep([case_of(right)]) for each in FILTERS] == [[True]] * len(FILTERS)
    assert [each.keep([case_of(wrong)])[0] for each in FILTERS] == [True, False, False, True]


@pytest.mark.parametrize(("full", "sound"), [(0.0, True), (1.0, False)])
async def test_a_form_that_is_a_penalty_is_in_order_at_0(played, full, sound):
    trajectory = await played("a b c", OutcomeMetrics(form="reward/correct", full_form=full))
    assert case_of(trajectory).sound is sound
    assert trajectory.outcome is None


async def test_without_an_outcome_nothing_is_said_to_be_wrong(played):
    found = (await played("no", OutcomeMetrics())).evidence
    assert (found.stage, found.outcome, found.reached(Stage.RIGHT)) == (Stage.KEPT, None, None)
