"""What another way of paying changes, by hand and by a slow version."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from docagent_rl.play.replay import Comparison
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.rescoring.difference import Payment, difference, kendall
from docagent_rl.training.rescoring.repaid import Repaid


def pair(uid, session, before, after, *, same=True):
    plain = {"step": 1, "split": "train", "record": {"question_id": uid}, "system": "s", "status": "finished"}
    sides = [
        Trajectory(uid, session, **plain, reward=r, metrics={"reward/total": r, "turns": 2.0})
        for r in (before, after)
    ]
    return Payment.of(Repaid(*sides, Comparison(2, 0, same, after - before)))


def test_means_and_shares():
    found = difference([pair("a", 0, 1.0, 0.5), pair("a", 1, 0.0, 0.0), pair("b", 0, 0.5, 0.5, same=False)])
    reward, total = found.terms
    assert (reward.name, total.name) == ("reward", "total")
    assert (reward.before, reward.changed) == (0.5, pytest.approx(1 / 3))
    assert reward.after == pytest.approx(1 / 3)
    assert found.same == pytest.approx(2 / 3)
    assert found.groups.groups == 1
    assert found.credit is None


def test_groups_that_are_flat_and_those_that_turn_round():
    groups = {"flat": [(1, 0), (1, 1)], "turned": [(0, 3), (1, 2), (2, 1)], "kept": [(0, 0), (1, 9)]}
    pairs = [pair(name, n, *each) for name, rewards in groups.items() for n, each in enumerate(rewards)]
    found = difference(pairs).groups
    assert (found.groups, found.flat_before, found.flat_after) == (3, 1, 0)
    assert found.agreement == 0.0  # -1 and 1
    assert found.best_changed == pytest.approx(1 / 3)


def test_credit():
    sessions = [pair("a", 0, 1, 1), pair("a", 1, 0, 0)]
    found = difference(sessions, [[1.0, -1.0], [0.5, 0.0]], [[2.0, 1.0], [1.0]]).credit
    assert (found.turns, found.flipped) == (3, pytest.approx(1 / 3))
    assert found.before == pytest.approx(2.5 / 3)
    assert found.after == pytest.approx(4 / 3)
    assert found.correlation == pytest.approx(np.corrcoef([1, -1, 0.5], [2, 1, 1])[0, 1])
    assert difference(sessions, [[0.0], [0.0]], [[0.0], [0.0]]).credit.turns == 0


numbers = st.lists(st.integers(0, 4), min_size=2, max_size=9)


@settings(max_examples=40)
@given(numbers, st.randoms(use_true_random=False))
def test_kendall_is_the_slow_one(first, rng):
    second = [rng.randint(0, 4) for _ in first]
    assume(len(set(first)) > 1 and len(set(second)) > 1)
    concordant = discordant = ties_a = ties_b = 0
    for i, j in itertools.combinations(range(len(first)), 2):
        a, b = first[i] - first[j], second[i] - second[j]
        concordant += a * b > 0
        discordant += a * b < 0
        ties_a += a == 0
        ties_b += b == 0
    pairs = len(first) * (len(first) - 1) / 2
    slow = (concordant - discordant) / ((pairs - ties_a) * (pairs - ties_b)) ** 0.5
    assert kendall(np.array(first), np.array(second)) == pytest.approx(slow)
