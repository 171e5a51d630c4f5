"""Each filter keeps the trajectories that were counted by hand; balancing has its properties for
any trajectories.
"""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.envs.outcome import UNJUDGED, Outcome
from docagent_rl.lab.collect.case import Case
from docagent_rl.lab.collect.collection import run_funnel
from docagent_rl.lab.collect.config import CollectConfig
from docagent_rl.lab.collect.filters import (
    AnswerFilter,
    Aspect,
    Balance,
    Duplicates,
    EvidenceFilter,
    EvidencePages,
    Finished,
    First,
    Format,
    Length,
    Sequel,
    is_unknown,
)
from docagent_rl.lab.collect.rules import Scoring
from tests.lab.collect.cases import case

LONG = "the committee of the northern region"
SEARCHES = [
    case(actions=("search", "crop", "answer")),
    case(actions=("search", "crop", "crop", "answer")),
    case(actions=("crop",)),
    case(actions=("search", "answer")),
]
LENGTHS = [case(actions=("answer",)), case(images=9), case()]
ALIKE = [
    case("a", 0, digest="x"),
    case("a", 1, digest="x"),
    case("a", 2, digest="y"),
    case("b", 0, digest="x"),
]


@pytest.mark.parametrize(
    ("rule", "cases", "kept"),
    [
        (Format(), [case(), case(sound=False), case(finished=False)], "100"),
        (Finished(), [case(), case(sound=False), case(finished=False)], "110"),
        (Length(least_turns=2, most_images=6), LENGTHS, "001"),
        (Length(most_turns=1), LENGTHS, "100"),
        (Sequel(action="crop", after=("search",)), SEARCHES, "1001"),
        (Duplicates(), ALIKE, "1011"),
        (First(count=2), ALIKE, "1101"),
    ],
)
def test_what_a_rule_keeps(rule, cases, kept):
    assert rule.keep(cases) == [each == "1" for each in kept]


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        ({"prediction": None}, False),
        ({"prediction": LONG[:-2], "references": (LONG,)}, True),
        # what names something has to be exact: one digit of ten is as wrong as all
        ({"prediction": "2019-03-05", "references": ("2019-03-06",)}, False),
        ({"prediction": "not answerable", "references": (), "refusal": True}, True),
        ({"prediction": "blue", "references": (), "refusal": True}, False),
        # nobody knows the answer
        ({"references": ()}, False),
        ({"prediction": "blue; red", "references": ("red", "blue"), "listing": True}, True),
    ],
)
def test_an_answer_is_right_by_likeness(changes, wanted):
    assert AnswerFilter(threshold=0.7).keep([case(**changes)]) == [wanted]


@pytest.mark.parametrize(
    ("changes", "shown", "listed"),
    [
        ({}, True, True),
        ({"shown": frozenset({"d#1"})}, False, True),
        ({"listed": frozenset({"d#1"})}, True, False),
        ({"listed": None}, True, False),
        ({"gold": None, "shown": frozenset(), "listed": None}, True, True),
        ({"gold": frozenset()}, True, False),
    ],
)
def test_evidence_is_a_gold_page_seen(changes, shown, listed):
    assert EvidenceFilter().keep([case(**changes)]) == [shown]
    assert EvidenceFilter(pages=EvidencePages.LISTED).keep([case(**changes)]) == [listed]


def test_the_funnel_counts_after_every_step_and_names_who_dropped_whom():
    cases = [
        case("a", 0),
        case("a", 1, sound=False),
        case("b", 0, prediction="red", dataset="other"),
    ]
    funnel = run_funnel(cases, [Format(), AnswerFilter()], trajectories=4)
    stages = [("played", 3, 2), ("1 format", 2, 2), ("2 answer", 1, 1)]
    assert [(s.step, s.trajectories, s.questions) for s in funnel.stages] == stages
    assert funnel.dropped == {("a", 1): "1 format", ("b", 0): "2 answer"}
    assert [c.key for c in funnel.kept] == [("a", 0)]
    assert funnel.stages[1].datasets == {"made": 1, "other": 1}
    assert funnel.table().row_count == 3


def test_an_answer_that_its_environment_did_not_judge_is_not_taken_for_wrong():
    unjudged = case("a", 0, outcome=UNJUDGED)
    cases = [
        unjudged,
        case("b", 0, outcome=Outcome.of(0.0)),
        case("c", 0),
        case("d", 0, outcome=None),
    ]
    assert [is_unknown(each, Scoring.OUTCOME) for each in cases] == [True, False, False, False]
    assert not any(is_unknown(each, Scoring.LIKENESS) for each in cases)
    by_outcome = run_funnel(cases, [AnswerFilter(by=Scoring.OUTCOME)], trajectories=4)
    assert [each.key for each in by_outcome.kept] == [("c", 0)]
    assert by_outcome.unknown_answers == 1
    assert "1 answers were dropped because their environment did not" in by_outcome.warnings()[0]
    # a judge that was asked afterwards knows
    asked = [replace(unjudged, verdict=1.0)]
    found = run_funnel(asked, [AnswerFilter(by=Scoring.OUTCOME, judged=True)], trajectories=1)
    assert (len(found.kept), found.unknown_answers, found.warnings()) == (1, 0, [])
    assert run_funnel(cases, [AnswerFilter()], trajectories=4).unknown_answers == 0


BOTH = (Aspect.STEPS, Aspect.ACTIONS)
TRAJECTORIES = st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from(["search", "crop", "fetch"])), max_size=40
)


def made(*kinds: tuple[int, str]) -> list[Case]:
    return [
        case(str(n), 0, actions=(name,) * (count - 1) + ("answer",))
        for n, (count, name) in enumerate(kinds)
    ]


def left(cases: list[Case], rule: Balance) -> list[Case]:
    return [each for each, keep in zip(cases, rule.keep(cases), strict=True) if keep]


def test_a_single_odd_trajectory_costs_the_others_nothing_and_small_groups_are_left_whole():
    """With the smallest group as the measure, 54 trajectories would be reduced to a handful."""
    *_, rule = CollectConfig.load("vrag_rl").filters
    assert rule == Balance(by=BOTH, times=2)
    cases = made(*[(2, "search")] * 30, *[(3, "crop")] * 23, (6, "fetch"))
    assert len(left(cases, Balance(by=BOTH))) == 54
    cases = made(*[(2, "search")] * 10, (3, "search"), (4, "search"))
    assert all(Balance(times=1).keep(cases))
    assert len(left(cases, Balance(times=1, least=1))) == 4 + 2


@settings(max_examples=30)
@given(TRAJECTORIES, st.floats(1, 3), st.integers(1, 10), st.randoms())
def test_groups_have_their_bound_and_what_is_dropped_had_no_room_in_whatever_order(
    kinds, times, least, rng
):
    cases, rule = made(*kinds), Balance(by=BOTH, times=times, least=least)
    keeps = rule.keep(cases)
    explained = list(keeps)
    for by in BOTH:
        groups = [by.group(each) for each in cases]
        bound = max(least, int(times * len(cases) / max(1, len(set(groups)))))
        sizes = Counter(group for group, keep in zip(groups, keeps, strict=True) if keep)
        assert all(size <= bound for size in sizes.values())
        explained = [
            each or sizes[group] == bound for group, each in zip(groups, explained, strict=True)
        ]
    assert all(explained)
    kept = {each.key for each in left(cases, rule)}
    rng.shuffle(cases)
    assert {each.key for each in left(cases, rule)} == kept
