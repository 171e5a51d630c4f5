"""Balancing: by hand, and what holds for any sessions."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from docagent_rl.collect.balance import Aspect, Balance
from docagent_rl.collect.case import Case
from docagent_rl.collect.config import CollectConfig
from docagent_rl.collect.funnel import run_funnel
from tests.collect.cases import case

STEPS = [2] * 40 + [3] * 4 + [5] * 10
BOTH = (Aspect.STEPS, Aspect.ACTIONS)
SESSIONS = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["search", "crop", "fetch"])), max_size=60)


def made(kinds: list[tuple[int, str]]) -> list[Case]:
    return [
        case(str(n), 0, actions=(name,) * (count - 1) + ("answer",)) for n, (count, name) in enumerate(kinds)
    ]


def left(cases: list[Case], rule: Balance) -> list[Case]:
    return [each for each, keep in zip(cases, rule.keep(cases), strict=True) if keep]


def test_no_group_is_larger_than_so_many_times_an_even_share():
    cases = made([(count, "search") for count in STEPS])
    # 54 sessions in three groups: an even share is 18
    assert Counter(len(each.actions) for each in left(cases, Balance(times=1))) == {2: 18, 3: 4, 5: 10}
    assert Counter(len(each.actions) for each in left(cases, Balance(times=2))) == {2: 36, 3: 4, 5: 10}
    assert (
        Balance(times=1).keep(cases) == Balance(times=1).keep(cases) != Balance(times=1, seed=1).keep(cases)
    )
    assert all(Balance(by=(Aspect.ACTIONS,), times=1).keep(cases))


def test_a_single_odd_session_costs_the_others_nothing():
    """By the smallest group 54 sessions would be cut to a handful."""
    cases = made([(2, "search")] * 30 + [(3, "crop")] * 23 + [(6, "fetch")])
    assert len(left(cases, Balance(by=BOTH))) == 54


def test_small_groups_are_left_whole():
    cases = made([(2, "search")] * 10 + [(3, "search"), (4, "search")])
    assert all(Balance(times=1).keep(cases))
    assert len(left(cases, Balance(times=1, least=1))) == 4 + 2


def test_aspects_are_balanced_together():
    cases = made([(2, "search")] * 30 + [(3, "search")] * 30 + [(3, "crop")] * 30)
    kept = left(cases, Balance(by=BOTH, times=1))
    steps = Counter(len(each.actions) for each in kept)
    actions = Counter(each.actions[0] for each in kept)
    # an even share is 45 by each
    assert steps[3] <= 45
    assert actions["search"] <= 45
    # and whoever is dropped had no room: 30, 15 and 30 is the most there can be
    assert 60 < len(kept) <= 75


def test_it_is_written_with_one_aspect_or_several():
    assert Balance.model_validate({"by": "actions"}).by == (Aspect.ACTIONS,)
    assert Balance.model_validate({"by": ["steps", "actions"]}).by == BOTH
    with pytest.raises(ValidationError):
        Balance.model_validate({"by": []})


def test_what_is_dropped_for_balance_alone_is_named():
    cases = made([(2, "search")] * 50 + [(count, "search") for count in (3, 4, 5, 6)])
    funnel = run_funnel(cases, [Balance(times=1)], sessions=54)
    (warning,) = funnel.warnings()
    assert all(named in warning for named in ("'1 balance'", "40", "54"))
    assert run_funnel(cases, [Balance(times=4)], sessions=54).warnings() == []


def test_vrag_rls_sessions_are_balanced_by_both():
    *_, rule = CollectConfig.load("vrag_rl").filters
    assert isinstance(rule, Balance)
    assert (rule.by, rule.times) == (BOTH, 2)


@given(SESSIONS, st.randoms())
def test_it_does_not_depend_on_the_order_of_sessions(kinds, rng):
    cases = made(kinds)
    kept = {each.key for each in left(cases, Balance(by=BOTH, times=1, least=1))}
    rng.shuffle(cases)
    assert {each.key for each in left(cases, Balance(by=BOTH, times=1, least=1))} == kept


@given(SESSIONS, st.floats(1, 3), st.integers(1, 10))
def test_groups_have_their_bound_and_what_is_dropped_had_no_room(kinds, times, least):
    cases = made(kinds)
    keeps = Balance(by=BOTH, times=times, least=least).keep(cases)
    sizes = {a: Counter(a.group(each) for each, keep in zip(cases, keeps, strict=True) if keep) for a in BOTH}
    bounds = {
        a: max(least, int(times * len(cases) / max(1, len({a.group(each) for each in cases})))) for a in BOTH
    }
    assert all(size <= bounds[a] for a in BOTH for size in sizes[a].values())
    for each, keep in zip(cases, keeps, strict=True):
        assert keep or any(sizes[a][a.group(each)] == bounds[a] for a in BOTH)
