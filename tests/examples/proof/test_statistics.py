from __future__ import annotations

import math

import pytest

from docagent_rl.errors import UserError
from proof.statistics import clustered_gain, over_seeds


def test_questions_of_one_document_are_drawn_together():
    before, after = [0.0] * 40, [1.0, 0.0] * 20
    apart = clustered_gain(before, after, [str(number) for number in range(40)])
    # 4 documents, of which two gain in all of their questions and two in none
    together = clustered_gain(before, sorted(after), [str(number // 10) for number in range(40)])
    assert apart.mean == together.mean == 0.5
    half = 1.96 * math.sqrt(0.25 / 40)
    assert apart.low == pytest.approx(0.5 - half, abs=0.02)
    assert apart.high == pytest.approx(0.5 + half, abs=0.02)
    assert (together.low, together.high) == (0.0, 1.0)


def test_a_document_counts_by_its_questions():
    gain = clustered_gain([0, 0, 0, 0], [1, 1, 1, 0], ["a", "a", "a", "b"])
    assert gain.mean == 0.75


def test_pairs_are_needed():
    with pytest.raises(UserError, match="2 numbers before, 1 after"):
        clustered_gain([0, 0], [1], ["a", "b"])


def test_student_over_seeds():
    found = over_seeds([0.1, 0.2, 0.3])
    assert found.mean == pytest.approx(0.2)
    assert found.high == pytest.approx(0.2 + 4.303 * 0.1 / math.sqrt(3), abs=1e-3)
