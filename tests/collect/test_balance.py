"""Balancing: by hand, and what holds for any sessions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from docagent_rl.collect.balance import Aspect, Balance
from docagent_rl.collect.case import Case
from docagent_rl.collect.config import CollectConfig
from docagent_rl.collect.funnel import run_funnel
from tests.collect.cases import case

BOTH = (Aspect.STEPS, Aspect.ACTIONS)
SESSIONS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["search", "crop", "fetch"])), max_size=40)


def made(*kinds: tuple[int, str]) -> list[Case]:
    return [
        case(str(n), 0, actions=(name,) * (count - 1) + ("answer",)) for n, (count, name) in enumerate(kinds)
    ]


def left(cases: list[Case], rule: Balance) -> list[Case]:
    return [each for each, keep in zip(cases, rule.keep(cases), strict=True) if keep]


def test_no_group_is_larger_than_so_many_times_an_even_share():
    cases = made(*((count, "search") for count in [2] * 40 + [3] * 4 + [5] * 10))
    # 54 sessions in three groups: an even share is 18
    assert Counter(len(each.actions) for each in left(cases, Balance(times=1))) == {2: 18, 3: 4, 5: 10}
    assert Counter(len(each.actions) for each in left(cases, Balance(times=2))) == {2: 36, 3: 4, 5: 10}
    assert Balance(times=1).keep(cases) != Balance(times=1, seed=1).keep(cases)
    assert all(Balance(by=(Aspect.ACTIONS,), times=1).keep(cases))


def test_a_single_odd_session_costs_the_others_nothing():
    """By the smallest group 54 sessions would be cut to a handful."""
    cases = made(*[(2, "search")] * 30, *[(3, "crop")] * 23, (6, "fetch"))
    assert len(left(cases, Balance(by=BOTH))) == 54


def test_small_groups_are_left_whole():
    cases = made(*[(2, "search")] * 10, (3, "search"), (4, "search"))
    assert all(Balance(times=1).keep(cases))
    assert len(left(cases, Balance(times=1, least=1))) == 4 + 2


def test_it_is_written_with_one_aspect_or_several():
    assert Balance.model_validate({"by": "actions"}).by == (Aspect.ACTIONS,)
    assert Balance.model_validate({"by": ["steps", "actions"]}).by == BOTH
    with pytest.raises(ValidationError):
        Balance.model_validate({"by": []})
    *_, rule = CollectConfig.load("vrag_rl").filters
    assert rule == Balance(by=BOTH, times=2)


def test_what_is_dropped_for_balance_alone_is_named():
    cases = made(*[(2, "search")] * 50, *((count, "search") for count in (3, 4, 5, 6)))
    (warning,) = run_funnel(cases, [Balance(times=1)], sessions=54).warnings()
    assert all(named in warning for named in ("'1 balance'", "40", "54"))
    assert run_funnel(cases, [Balance(times=4)], sessions=54).warnings() == []


@settings(max_examples=50)
@given(SESSIONS, st.floats(1, 3), st.integers(1, 10), st.randoms())
def test_groups_have_their_bound_and_what_is_dropped_had_no_room_in_whatever_order(kinds, times, least, rng):
    cases, rule = made(*kinds), Balance(by=BOTH, times=times, least=least)
    keeps = rule.keep(cases)
    explained = list(keeps)
    for by in BOTH:
        groups = [by.group(each) for each in cases]
        bound = max(least, int(times * len(cases) / max(1, len(set(groups)))))
        sizes = Counter(group for group, keep in zip(groups, keeps, strict=True) if keep)
        assert all(size <= bound for size in sizes.values())
        explained = [each or sizes[group] == bound for group, each in zip(groups, explained, strict=True)]
    assert all(explained)
    kept = {each.key for each in left(cases, rule)}
    rng.shuffle(cases)
    assert {each.key for each in left(cases, rule)} == kept
