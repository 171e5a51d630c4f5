from __future__ import annotations

from learning.choices import Arm, Estimator
from learning.plot import draw, smoothed
from learning.results import RunResult, Scores


def result(estimator, arm, seed):
    after = 0.9 if arm is Arm.REWARD else 0.4
    scores = [Scores((value, value), (0.0, 1.0)) for value in (0.4, after, 0.2, 0.2)]
    return RunResult(estimator, arm, seed, 3, 1.0, *scores, (0.4, 0.5, 0.6 + 0.01 * seed))


def test_trailing_means_by_hand():
    assert smoothed([1.0, 2.0, 6.0, 4.0], window=2).tolist() == [1.0, 1.5, 4.0, 5.0]
    assert smoothed([3.0], window=5).tolist() == [3.0]


def test_the_picture_names_what_it_shows_and_is_reproducible(tmp_path):
    runs = [result(Estimator.GRPO, arm, 0) for arm in Arm]
    runs += [result(Estimator.SPO, arm, seed) for arm in Arm for seed in range(3)]
    first = draw(runs, tmp_path / "a.svg").read_text()
    assert all(word in first for word in ("grpo, shuffled", "spo"))
    assert draw(runs, tmp_path / "b.svg").read_text() == first
