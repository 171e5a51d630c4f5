from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.systems.unidoc_rl.config import UniDocConfig, Variant
from docagent_rl.systems.unidoc_rl.rewards import TERMS, Conduct, FormatMode, UniDocWeights, format_reward
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound
from tests.systems.unidoc_rl.worked import GOLD, ROUNDS, WANTED

PAPER, RELEASED = (UniDocConfig.for_variant(variant).rule() for variant in Variant)


GOOD = Conduct(turns=8, faults=0, searched=True, selected=True, noted=True, finished=True)


@pytest.mark.parametrize(
    ("mode", "changes", "value"),
    [
        (FormatMode.STRICT, {}, 1),
        (FormatMode.STRICT, {"faults": 1}, 0),
        (FormatMode.STRICT, {"finished": False}, 0),
        (FormatMode.STRICT, {"searched": False, "selected": False, "noted": False}, 1),
        (FormatMode.GRADED, {}, 1),
        (FormatMode.GRADED, {"faults": 2}, 0.75),
        (FormatMode.GRADED, {"turns": 0}, 0),
        (FormatMode.TIERED, {}, 1),
        (FormatMode.TIERED, {"faults": 3}, 1),
        (FormatMode.TIERED, {"finished": False}, 0.5),
        (FormatMode.TIERED, {"searched": False}, 0),
        (FormatMode.TIERED, {"selected": False}, 0),
        (FormatMode.TIERED, {"noted": False}, 0),
    ],
)
def test_format(mode, changes, value):
    assert format_reward(replace(GOOD, **changes), mode) == value


def test_the_judge_is_needed_unless_gated():
    needed = [PAPER.needs_outcome(0.0), RELEASED.needs_outcome(0.0), RELEASED.needs_outcome(0.5)]
    assert needed == [True, False, True]


@pytest.mark.parametrize(("fmt", "outcome", "total"), [(1.0, 1.0, 1.0), (0.5, 0.0, 0.35)])
def test_the_best_rounds(fmt, outcome, total):
    """Without an answer they are worth little."""
    boxes = tuple(WANTED["T9"])
    best = [SearchRound(("T7",), selected="T7"), SearchRound(("T9",), selected="T9", boxes=boxes)]
    for rule in (PAPER, RELEASED):
        terms = rule.terms(best, GOLD, WANTED, fmt=fmt, outcome=outcome)
        assert tuple(terms) == TERMS
        assert terms["total"] == pytest.approx(total)


@settings(max_examples=30)
@given(
    st.sampled_from([PAPER, RELEASED]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 1.0]),
    st.integers(0, 3),
)
def test_bounds_and_monotonicity(rule, fmt, outcome, count):
    def total(fmt, outcome):
        return rule.terms(ROUNDS[:count], GOLD, WANTED, fmt=fmt, outcome=outcome)["total"]

    assert 0 <= total(fmt, outcome) <= min(total(fmt, 1.0), total(1.0, outcome)) <= 1


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_weights_that_make_no_sense(weight):
    with pytest.raises(ValueError, match=str(weight)):
        UniDocWeights(roi=weight)
