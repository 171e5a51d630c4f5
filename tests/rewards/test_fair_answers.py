"""Right answers in the frames of models are accepted; wrong ones in frames are not."""

from pathlib import Path

import pytest

from tests.rewards.fair_answers import read_fair, read_frames, read_golds, refused_table
from tests.rewards.hostile_answers import read_hostile

PAGE = Path(__file__).parents[2] / "docs" / "rule_judge.md"
MOST_REFUSED = 0.01
"""Largest share of fair answers that may be refused; the promise is 0.05."""


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["fair", "held_out"])
def test_few_fair_answers_are_refused(prefix):
    answers = read_fair(prefix)
    refused = [fair for fair in answers if fair.is_refused]
    assert len(refused) <= MOST_REFUSED * len(answers), "\n".join(map(str, refused))


@pytest.mark.slow
def test_the_table_is_what_the_page_says():
    assert refused_table(read_fair()) in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["fair", "held_out"])
def test_no_hostile_answer_is_accepted(prefix):
    assert [str(answer) for answer in read_hostile(prefix) if answer.is_accepted] == []


def test_the_corpus_has_many_frames_and_kinds():
    assert len({frame.text for frame in read_frames()}) >= 300
    assert len({gold.kind for gold in read_golds()}) >= 18
