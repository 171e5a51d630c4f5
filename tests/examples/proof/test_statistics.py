from __future__ import annotations

import math

import pytest

from docagent_rl.errors import UserError
from proof.statistics import clustered_gain


def test_questions_of_one_document_are_drawn_together():
    before, after = [0.0] * 40, [1.0, 0.0] * 20
    apart = clustered_gain(before, after, [str(number) for number in range(40)])
    # 4 documents, of which two gain in all of their questions and two in none
    together = clustered_gain(before, sorted(after), [str(number // 10) for number in range(40)])
    assert apart.mean == together.mean == 0.5
    half = 1.96 * math.sqrt(0.25 / 40)
    assert (apart.low, apart.high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.02)
    assert (together.low, together.high) == (0.0, 1.0)


def test_a_document_counts_by_its_questions():
    assert clustered_gain([0, 0, 0, 0], [1, 1, 1, 0], ["a", "a", "a", "b"]).mean == 0.75
    with pytest.raises(UserError, match=r"\b2\b.*\b1\b"):
        clustered_gain([0, 0], [1], ["a", "b"])
