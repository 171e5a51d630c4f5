"""A short form of the learning demonstration: the direction only."""

from __future__ import annotations

import json
from statistics import fmean

import pytest

from learning.warm_start import SAMPLE
from tests.e2e.learning import KEY, SETTINGS, play


@pytest.fixture(scope="module")
def learned(runs):
    return runs.result("learning")


def test_reward_rises_over_the_warm_start(learned):
    result = learned.result
    assert result.after.mean > result.before.mean
    assert fmean(result.curve[-5:]) > fmean(result.curve[:5])


def test_the_warm_start_fails_most_questions(learned):
    sample = json.loads((learned.paths.warm_start(KEY.seed) / SAMPLE).read_text())
    assert sample["dev_accuracy"][str(sample["step"])] < SETTINGS.ceiling
    assert learned.result.before.accuracy < 0.6


def test_blank_pages_are_not_read(learned):
    assert learned.result.blank_before.accuracy < 0.15
    assert learned.result.blank_after.accuracy < 0.15


def test_what_is_done_is_not_done_again(learned):
    log = learned.paths.run(KEY) / "log.txt"
    before = log.stat().st_mtime_ns
    assert play(learned.paths.root, learned.python).result == learned.result
    assert log.stat().st_mtime_ns == before
    assert learned.paths.plot.is_file()
