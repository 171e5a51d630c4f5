"""A short form of the learning demonstration, which checks only the direction, and that of the
weights rather than of rewards.
"""

import json
from collections import defaultdict
from statistics import covariance

import pytest

from learning.warm_start import CHOICE
from tests.e2e.learning import KEY, SETTINGS, first_trajectories, log_probs, play


@pytest.fixture(scope="module")
def learned(runs):
    return runs.result("learning")


def test_what_was_rewarded_becomes_likelier(learned, tmp_path):
    """Within a group, trajectories with higher rewards gain more log-probability in four steps,
    from rewards over advantages to weights.
    """
    played = first_trajectories(learned)
    found = log_probs(learned, played, tmp_path)
    server = [sum(sum(turn.log_probs) for turn in trajectory.turns) for trajectory in played]
    assert [before for before, _ in found] == pytest.approx(server, abs=1e-2)
    groups = defaultdict(list)
    for trajectory, (before, after) in zip(played, found, strict=True):
        groups[trajectory.uid].append((trajectory.reward, after - before))
    slopes = [covariance(*zip(*group, strict=True)) for group in groups.values()]
    assert sum(slope != 0 for slope in slopes) > 4
    assert sum(slopes) > 0


def test_the_warm_start_fails_most_questions(learned):
    sample = json.loads((learned.paths.warm_start(KEY.seed) / CHOICE).read_text())
    assert sample["dev_accuracy"][str(sample["step"])] < SETTINGS.ceiling
    assert learned.result.before.accuracy < 0.6


def test_blank_pages_are_not_read(learned):
    """A guess is right for one of ten digits."""
    assert learned.result.blank_before.accuracy < 0.3
    assert learned.result.blank_after.accuracy < 0.3


def test_what_is_done_is_not_done_again(learned):
    log = learned.paths.run(KEY) / "log.txt"
    before = log.stat().st_mtime_ns
    assert play(learned.paths.root, learned.python).result == learned.result
    assert log.stat().st_mtime_ns == before
    assert learned.paths.plot.is_file()
