from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.rewards import TERMS, Conduct, FormatMode, UniDocWeights, format_reward
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound
from tests.systems.unidoc_rl.worked import GOLD, ROUNDS, WANTED

# as Eq. 7 has it, without the cap on searches for nothing
PAPER = replace(UniDocConfig.for_variant("paper").rule(), select_capped=False)
RELEASED = UniDocConfig.for_variant("released").rule()
PUBLISHED = replace(RELEASED, ndcg_as_published=True)
ABLATED = replace(PAPER, weights=UniDocWeights(search_ndcg=0, select=0, roi=0))


def conduct(**changes):
    played = {"turns": 8, "faults": 0, "searched": True, "selected": True, "noted": True, "finished": True}
    return Conduct(**{**played, **changes})


@pytest.mark.parametrize(
    ("rule", "changes", "outcome", "ndcg", "total"),
    [
        (PAPER, {}, 1.0, 0.482476, 0.909735),
        (PAPER, {}, 0.0, 0.482476, 0.309735),
        (PAPER, {"finished": False}, 0.0, 0.482476, 0.209735),
        (PAPER, {"noted": False}, 1.0, 0.482476, 0.909735),
        (RELEASED, {}, 1.0, 0.482476, 0.898248),
        (RELEASED, {}, 0.0, 0.482476, 0.298248),
        (RELEASED, {"finished": False}, 0.0, 0.482476, 0.248248),
        (RELEASED, {"noted": False}, 1.0, 0.482476, 0.0),
        (PUBLISHED, {}, 1.0, 0, 0.898248 - 0.0482476),
        # weights of dropped terms are not redistributed
        (ABLATED, {}, 1.0, 0.482476, 0.7),
    ],
)
def test_worked_totals(rule, changes, outcome, ndcg, total):
    fmt = format_reward(conduct(**changes), rule.format_mode)
    terms = rule.terms(ROUNDS, GOLD, WANTED, fmt=fmt, outcome=outcome)
    assert tuple(terms) == TERMS
    assert (terms["search_ndcg"], terms["total"]) == pytest.approx((ndcg, total), abs=1e-6)
    assert (terms["format"], terms["outcome"]) == (fmt, outcome)


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
    assert format_reward(conduct(**changes), mode) == value


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
