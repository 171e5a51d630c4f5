from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.unidoc_rl.rewards import (
    TERMS,
    Conduct,
    FormatMode,
    UniDocReward,
    UniDocWeights,
    format_reward,
)
from docagent_rl.systems.unidoc_rl.roi import RoiRule
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound, SelectRule

PAPER = UniDocReward(
    weights=UniDocWeights(),
    gate=False,
    select_rule=SelectRule.ANY,
    pseudo_positive=True,
    roi_rule=RoiRule.IOU,
    iou_threshold=0.5,
    abstention=True,
    implicit=False,
    format_mode=FormatMode.STRICT,
)
RELEASED = dataclasses.replace(
    PAPER,
    gate=True,
    select_rule=SelectRule.FIRST,
    roi_rule=RoiRule.F1,
    implicit=True,
    format_mode=FormatMode.TIERED,
)
RULES = {"paper": PAPER, "released": RELEASED}
GOLD = {"T7", "T9"}
WANTED = {"T9": [(0.12, 0.15, 0.52, 0.46), (0.56, 0.48, 0.94, 0.6)]}
DRAWN = (
    (66 / 532, 118 / 753, 274 / 532, 331 / 753),
    (352 / 532, 400 / 753, 498 / 532, 480 / 753),
)
WORKED = [
    SearchRound(("T5", "T7", "T9"), selected="T9", boxes=DRAWN),
    SearchRound(("T2", "T7", "T1"), selected="T7"),
    SearchRound(("R4", "R5", "R6"), selected="R4"),
]


def conduct(**changes):
    played = {"turns": 8, "faults": 0, "searched": True, "selected": True, "noted": True, "finished": True}
    return Conduct(**{**played, **changes})


@pytest.mark.parametrize(
    ("variant", "changes", "outcome", "total"),
    [
        ("paper", {}, 1.0, 0.909735),
        ("paper", {}, 0.0, 0.309735),
        ("paper", {"finished": False}, 0.0, 0.209735),
        ("paper", {"noted": False}, 1.0, 0.909735),
        ("released", {}, 1.0, 0.898248),
        ("released", {}, 0.0, 0.298248),
        ("released", {"finished": False}, 0.0, 0.248248),
        ("released", {"noted": False}, 1.0, 0.0),
    ],
)
def test_worked_totals(variant, changes, outcome, total):
    rule = RULES[variant]
    fmt = format_reward(conduct(**changes), rule.format_mode)
    terms = rule.terms(WORKED, GOLD, WANTED, fmt=fmt, outcome=outcome)
    assert tuple(terms) == TERMS
    assert terms["total"] == pytest.approx(total, abs=1e-6)
    assert terms["search_ndcg"] == pytest.approx(0.482476, abs=1e-6)
    assert terms["outcome"] == outcome


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
    assert PAPER.needs_outcome(0.0)
    assert not RELEASED.needs_outcome(0.0)
    assert RELEASED.needs_outcome(1.0)


def test_ndcg_as_published():
    rule = dataclasses.replace(RELEASED, ndcg_as_published=True)
    terms = rule.terms(WORKED, GOLD, WANTED, fmt=1.0, outcome=1.0)
    assert terms["search_ndcg"] == 0
    assert terms["total"] == pytest.approx(0.898248 - 0.0482476, abs=1e-6)


def test_weights_of_dropped_terms_are_not_redistributed():
    rule = dataclasses.replace(PAPER, weights=UniDocWeights(search_ndcg=0, select=0, roi=0))
    terms = rule.terms(WORKED, GOLD, WANTED, fmt=1.0, outcome=1.0)
    assert terms["total"] == pytest.approx(0.7)
    assert terms["select"] == 1


def test_without_an_answer_the_release_pays_little():
    best = [
        SearchRound(("T7",), selected="T7"),
        SearchRound(("T9",), selected="T9", boxes=tuple(WANTED["T9"])),
    ]
    fmt = format_reward(conduct(finished=False), FormatMode.TIERED)
    assert RELEASED.terms(best, GOLD, WANTED, fmt=fmt, outcome=0.0)["total"] == pytest.approx(0.35)
    for rule in (PAPER, RELEASED):
        assert rule.terms(best, GOLD, WANTED, fmt=1.0, outcome=1.0)["total"] == pytest.approx(1.0)


@given(
    st.sampled_from(sorted(RULES)),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 1.0]),
    st.integers(0, 3),
)
def test_bounds_and_monotonicity(variant, fmt, outcome, count):
    rule, rounds = RULES[variant], WORKED[:count]
    total = rule.terms(rounds, GOLD, WANTED, fmt=fmt, outcome=outcome)["total"]
    assert 0 <= total <= 1
    assert rule.terms(rounds, GOLD, WANTED, fmt=fmt, outcome=1.0)["total"] >= total
    assert rule.terms(rounds, GOLD, WANTED, fmt=1.0, outcome=outcome)["total"] >= total


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_weights_that_make_no_sense(weight):
    with pytest.raises(ValueError, match=str(weight)):
        UniDocWeights(roi=weight)
