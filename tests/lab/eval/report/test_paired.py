import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from docagent_rl.lab.eval.report.grid import rendered
from docagent_rl.lab.eval.report.paired import compare, paired_table
from docagent_rl.lab.eval.report.statistics import EXACT, FEWEST, Cell, intervals, sums_of
from docagent_rl.lab.eval.scoring.scored import Form, Measure, mean
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.lab.eval.report.scores import (
    F1,
    SCORE,
    scored,
    slow_bootstrap,
    slow_number,
    slow_permutation,
)

VALUES = st.tuples(
    st.sampled_from([0.0, 0.25, 1.0]),
    st.sampled_from([0.0, 0.6, 1.0]),
    st.sampled_from(["x", NOT_ANSWERABLE]),
)


def pair_of(rows):
    first = [scored(n, a, document=doc, pred=pred) for n, (doc, a, _, pred) in enumerate(rows)]
    second = [scored(n, b, document=doc) for n, (doc, _, b, _) in enumerate(rows)]
    return first, second


@given(st.lists(VALUES, min_size=1, max_size=10))
@settings(max_examples=30)
def test_p_values_of_few_documents_are_exact_and_a_swap_turns_everything_round(values):
    rows = [(f"d{n % 7}", *each) for n, each in enumerate(values)]
    first, second = pair_of(rows)
    there = compare(first, second, [SCORE, F1], draws=20)
    back = compare(second, first, [SCORE, F1], draws=20)
    assert (there.won, there.lost, there.tied) == (back.lost, back.won, back.tied)
    assert there.only_second_right == back.only_first_right
    for one, other in zip(there.numbers, back.numbers, strict=True):
        slow = slow_permutation(first, second, one.measure) if len(rows) >= FEWEST else None
        assert one.p == (slow if slow is None else pytest.approx(slow, abs=1e-12))
        assert one.p == other.p
        assert one.gain.value == pytest.approx(-other.gain.value, abs=1e-12)
        if one.gain.low is not None:
            assert one.gain.low == pytest.approx(-other.gain.high, abs=1e-12)
    alike = compare(first, first, [SCORE, F1], draws=20)
    assert (alike.won, alike.lost, alike.tied) == (0, 0, len(first))
    assert alike.only_second_right == alike.only_first_right == ()
    none = 1 if len(rows) >= FEWEST else None
    assert [(each.gain.value, each.p) for each in alike.numbers] == [(0, none), (0, none)]


@pytest.mark.parametrize(
    ("documents", "p", "shown"),
    [
        (1, None, "-"),
        (FEWEST - 1, None, "-"),
        (FEWEST, 2 / 2**FEWEST, "0.0312"),
        (EXACT, 2 / 2**EXACT, "< 0.001"),
    ],
)
def test_fewer_than_six_documents_have_no_p_value_and_none_is_printed_as_zero(documents, p, shown):
    sides = [[scored(n, side, document=f"d{n % documents}") for n in range(28)] for side in (1, 0)]
    found = compare(*sides, [SCORE], draws=20)
    assert (found.lost, found.numbers[0].p, found.numbers[0].least_p) == (28, p, p)
    assert paired_table(found, "a", "b", "Own").rows[0][-2:] == (str(documents), shown)


def test_random_ways_come_near_the_exact_value():
    rows = [(f"d{n}", 0.0, float(n % 3 == 0), "x") for n in range(EXACT)]
    exact = compare(*pair_of(rows), [SCORE], draws=10).numbers[0]
    more = [*rows, ("tied", 1.0, 1.0, "x")]  # one document too many; it changes nothing
    assert compare(*pair_of(more), [SCORE], draws=20_000).numbers[0].p == pytest.approx(
        exact.p, abs=0.01
    )
    assert exact.p == 2 / 2**5


def test_questions_that_one_run_lacks_are_named_and_left_out():
    first = [scored(0, 1), scored(1, 1), scored(2, 0), scored(4, 1, document="x"), scored(5, None)]
    second = [scored(1, 0), scored(2, 1), scored(3, 1), scored(4, 1, document="y"), scored(5, 1)]
    found = compare(first, second, [SCORE], draws=50)
    assert (found.only_in_first, found.only_in_second, found.of_different_documents) == (
        ("q0",),
        ("q3",),
        ("q4",),
    )
    assert (found.won, found.lost, found.tied) == (1, 1, 0)
    assert (found.only_second_right, found.only_first_right) == (("q2",), ("q1",))
    # the fifth has a number in one run alone
    assert (found.numbers[0].first, found.numbers[0].second, found.numbers[0].gain.questions) == (
        0.5,
        0.5,
        2,
    )
    nothing = compare([scored(0, 1)], [scored(1, 1)], [SCORE], draws=10)
    assert (nothing.numbers[0].gain.value, nothing.numbers[0].p) == (None, None)


CELLS = [Cell(SCORE), Cell(F1)]
ANSWERS = st.sampled_from(["x", NOT_ANSWERABLE])
ROWS = st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 1), ANSWERS, ANSWERS), max_size=12)


@given(ROWS)
@settings(max_examples=40)
def test_numbers_and_intervals_are_those_of_the_slow_version(rows):
    # to decline an answerable question gains nothing, else an F1 may exceed 1
    trajectories = [
        scored(
            n, 0.0 if pred == NOT_ANSWERABLE != gold else score, document=doc, pred=pred, gold=gold
        )
        for n, (doc, score, pred, gold) in enumerate(rows)
    ]
    documents = len({row[0] for row in rows})
    for cell, found in zip(
        CELLS, intervals(sums_of(trajectories, CELLS), draws=40, seed=5), strict=True
    ):
        assert (found.questions, found.documents) == (len(rows), documents)
        wanted = slow_number(trajectories, cell.measure)
        assert found.value == (None if wanted is None else pytest.approx(wanted, abs=1e-12))
        assert (found.low is not None) == (documents > 1)
        if found.low is not None:
            ends = slow_bootstrap(trajectories, cell.measure, 40, 5)
            assert [found.low, found.high] == pytest.approx(ends, abs=1e-12)
            assert -1e-12 <= found.low <= found.high <= 1 + 1e-12


def test_several_trajectories_of_a_question_weigh_one_together():
    trajectories = [
        scored(0, 1),
        scored(1, 0, number=0),
        scored(1, 0, number=1),
        scored(1, 1, number=2),
    ]
    (found,) = intervals(sums_of(trajectories, [Cell(SCORE)]), draws=100)
    assert found.value == pytest.approx((1 + 1 / 3) / 2)
    assert (found.questions, found.documents) == (2, 2)
    # a trajectory without the value takes no part
    trajectories += [scored(2, 1, number=0), scored(2, None, number=1), scored(3, 0)]
    (found,) = intervals(sums_of(trajectories, [Cell(SCORE)]), draws=100)
    assert found.value == pytest.approx((1 + 1 / 3 + 1 + 0) / 4)


def test_rows_of_breakdowns_hold_their_questions_and_those_without_value_are_in_none():
    trajectories = [scored(0, 1), scored(1, 0), scored(2, None), scored(3, 1)]
    odd = ("kind", "odd")
    cells = [Cell(SCORE), Cell(SCORE, odd), Cell(SCORE, ("kind", "none"))]
    sums = sums_of(
        trajectories, cells, lambda each: [odd] if each.question_id in ("q1", "q2", "q3") else []
    )
    whole, part, nothing = intervals(sums, draws=50)
    assert (whole.value, whole.questions) == (pytest.approx(2 / 3), 3)
    assert (part.value, part.questions, part.documents) == (0.5, 2, 2)
    assert (nothing.value, nothing.low, nothing.questions) == (None, None, 0)


def test_the_table_fits_a_terminal_whatever_the_runs_are_called():
    name = "a_long_name_of_an_experiment_with_all_its_settings"
    long = Measure("invalid", "invalid turns, per trajectory", "score", Form.MEAN)
    sides = [[scored(n, side, document=f"d{n}") for n in range(120)] for side in (1, 0)]
    found = compare(*sides, [long], draws=20)
    table = paired_table(found, name, f"{name}_2", "Own")
    assert name not in " ".join(table.head)
    assert table.title == f"Own: {name}_2 (second) against {name} (first)"
    assert table.notes[0] == "over 120 questions"
    console = Console(width=100)
    with console.capture() as printed:
        console.print(rendered(table))
    rows = [line for line in printed.get().splitlines() if long.title in line]
    assert len(rows) == 2  # its row, and the note that names it
    assert "[-100.0, -100.0]" in rows[0]


def test_numbers_over_different_questions_have_a_column_of_their_counts():
    sides = [[scored(1, side), scored(2, side)] for side in (1, 0)]
    for side in sides:
        side[0].values["other"] = 1.0
    found = compare(*sides, [SCORE, mean("other", "other")], draws=5)
    table = paired_table(found, "a", "b", "Own")
    assert table.head[4] == "questions"
    assert [row[4] for row in table.rows] == ["2", "1"]
