"""The reward function of the examples, by hand and in the environment that its docstring names."""

import pytest

from custom_reward import compute_score, word_f1
from docagent_rl.lab.agents.texts import play_texts, whole_turn
from docagent_rl.rollout.recorder import new_trajectory
from tests.lab.agents.stage import resources

TWO_TURNS = {"trajectory": {"turns": [{"searches": [1, 2]}, {"searches": []}]}}


def test_by_hand():
    found = compute_score("s", "The cat sat", ["a dog", "the cat"], TWO_TURNS, most_turns=4)
    # of three and of two words two are common
    assert found == pytest.approx(
        {"score": 0.9 * 0.8 + 0.1 * 0.5, "overlap": 0.8, "brevity": 0.5, "searches": 2}
    )
    assert compute_score("s", "", [], TWO_TURNS, most_turns=1)["score"] == 0
    assert word_f1("a a b", "a b b") == pytest.approx(2 / 3)


async def test_it_rewards_a_trajectory(world):
    function = {"path": "pkg://custom_reward", "reward_kwargs": {"most_turns": 6}, "weight": 0.5}
    shared = resources(world, "vrag_rl", judge={"kind": "exact"}, reward_function=function)
    sample = world.samples[1]
    texts = [f"<search>{sample.question}</search>", f"<answer>{sample.answers[0]}</answer>"]

    async def write(trajectory):
        return whole_turn(texts[len(trajectory.turns)])

    trajectory = await play_texts(
        shared.environment(), sample, write, new_trajectory(sample, 0, "vrag_rl")
    )
    numbers = trajectory.metrics
    score = 0.9 * numbers["reward/compute_score.overlap"] + 0.1 * (1 - 2 / 6)
    assert numbers["reward/compute_score.overlap"] == 1.0
    assert numbers["reward/compute_score.searches"] == 1.0
    assert numbers["reward/compute_score"] == pytest.approx(score)
    assert trajectory.reward == pytest.approx(numbers["reward/total"] + 0.5 * score)
