"""Numbers over sessions: means, F1, rates, tokens, time and cost, tables of Doc-V* and ALDEN."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.alden import AldenRow, Label, alden_table
from docagent_rl.lab.eval.metrics.doc_v_star import Tool, ToolPages, tool_table
from docagent_rl.lab.eval.metrics.scored import Mean, Scored, accuracy_f1, grouped, mean_of_each
from docagent_rl.lab.eval.metrics.sessions import Price, SessionUse, Spread, session_table
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from tests.lab.eval.metrics import slow

ANSWERS = st.sampled_from(["a", 18, NOT_ANSWERABLE, "not answerable"])


def test_accuracy_and_f1_of_the_specification():
    """Ten questions, of which three cannot be answered."""
    golds = ["a"] * 7 + [NOT_ANSWERABLE] * 3
    scores = [1, 1, 0.8, 0, 0, 1, 0, 1, 1, 1]
    said = ["a", "a", "a", NOT_ANSWERABLE, NOT_ANSWERABLE, "a", "b"] + [NOT_ANSWERABLE] * 3
    rows = [Scored(*row) for row in zip(golds, said, scores, strict=True)]
    assert accuracy_f1(rows) == pytest.approx((0.68, 0.6333), abs=5e-5)
    assert accuracy_f1([]) == (0, 0)
    assert accuracy_f1([Scored(NOT_ANSWERABLE, "not answerable", 1.0)]) == (1, 0)


@given(st.lists(st.builds(Scored, ANSWERS, ANSWERS, st.floats(0, 1)), max_size=12))
def test_accuracy_and_f1_against_a_slow_reading(results):
    sums, golds, said = 0.0, 0, 0
    for row in results:
        if row.answer != NOT_ANSWERABLE:
            sums, golds = sums + row.score, golds + 1
        said += row.pred != NOT_ANSWERABLE
    recall = sums / golds if golds else 0
    precision = sums / said if said else 0
    accuracy, f1 = accuracy_f1(results)
    mean = sum(row.score for row in results) / len(results) if results else 0
    assert accuracy == pytest.approx(mean)
    assert f1 == pytest.approx(2 * recall * precision / (recall + precision) if sums > 1e-300 else 0)


def test_means_leave_out_what_has_no_meaning_and_say_so():
    assert Mean.of([1.0, None, 0.0]) == Mean(0.5, 2)
    assert Mean.of([None]) == Mean.of([]) == Mean(None, 0)
    assert mean_of_each([{"a": 1.0, "b": None}, {"a": 0.0}]) == {"a": Mean(0.5, 2), "b": Mean(None, 0)}
    # a question counts in each of its groups once
    table = grouped([(["Table", "Chart"], 1.0), (["Chart", "Chart"], 0.0), ([], 1.0)])
    assert list(table.items()) == [("Chart", Mean(0.5, 2)), ("Table", Mean(1.0, 1))]


def turn(row=0, sampled=1, observed=0, dropped=False, images=0):
    observation = [{"role": "user", "parts": [{"text": "x"}, *[{"image": {}}] * images]}]
    return TrajectoryTurn(
        "", "end_of_turn", [0] * sampled, [0.0] * sampled, observation=observation,
        observation_tokens=observed,
        dropped=dropped, seconds={"generate": 1.0, "step": 0.5}, row=row,
    )  # fmt: skip


def test_a_fresh_context_begins_with_its_own_prompt():
    turns = [turn(0, 2, 3, images=2), turn(0, 4, 100), turn(1, 5, 0, dropped=True, images=2)]
    trajectory = Trajectory("u", 0, 0, "val", {}, "s", prompt_tokens=10, turns=turns)
    trajectory.prompt = [{"role": "user", "parts": [{"image": {}}]}]
    use = SessionUse.of(trajectory)
    assert use.sent_tokens == 10 + (10 + 2 + 3) + 100
    assert use.fresh_tokens == 10 + 3 + 100
    assert (use.output_tokens, use.images, use.seconds) == (11, 3, 4.5)
    trajectory.status = Status.MASKED.value
    assert SessionUse.of(trajectory) == SessionUse(False, False)


def test_latency_is_given_with_its_tail_and_cost_counts_what_is_sent_again():
    uses = [SessionUse(True, True, seconds=float(second)) for second in range(1, 102)]
    assert session_table(uses).seconds == Spread(51.0, 51.0, 96.0, 101.0)
    empty = session_table([])
    assert empty.seconds == Spread(None, None, None, None)
    assert empty.cost is empty.total_cost is None
    use = SessionUse(True, True, sent_tokens=3_000_000, fresh_tokens=1_000_000, output_tokens=500_000)
    assert Price(2.0, 8.0).cost(use.sent_tokens, use.output_tokens, use.fresh_tokens) == pytest.approx(6 + 4)
    cached = Price(2.0, 8.0, cached=0.5)
    assert cached.cost(use.sent_tokens, use.output_tokens, use.fresh_tokens) == pytest.approx(2 + 1 + 4)
    table = session_table([use, use, SessionUse(False, False)], Price(2.0, 8.0))
    assert (table.cost, table.total_cost) == (Mean(10.0, 2), 20.0)


@pytest.mark.parametrize("prices", [(-1.0, 1.0), (1.0, float("nan")), (1.0, 1.0, float("inf"))])
def test_prices_are_checked(prices):
    with pytest.raises(ValueError):
        Price(*prices)


def uses(turns):
    invalid, finished = st.integers(0, turns), st.booleans()
    return st.builds(SessionUse, st.just(True), finished, turns=st.just(turns), invalid=invalid)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5).flatmap(uses) | st.just(SessionUse(False, False)), max_size=6))
def test_rates_equal_the_slow_reading(uses):
    table, played = session_table(uses), [use for use in uses if use.played]
    turns, invalid = sum(use.turns for use in played), sum(use.invalid for use in played)
    assert (table.sessions, table.unplayed) == (len(uses), len(uses) - len(played))
    assert table.invalid_turns == (pytest.approx(invalid / turns) if played else None)
    slow.assert_means(
        table,
        {
            "finish_rate": [use.finished for use in uses],
            "invalid_rate": [use.invalid / use.turns for use in played],
            "turns": [use.turns for use in played],
        },
    )


PAGES = st.sets(st.integers(1, 6), max_size=4)
SESSIONS = st.lists(
    st.builds(ToolPages, PAGES, st.dictionaries(st.sampled_from(list(Tool)), PAGES)), max_size=5
)


@settings(max_examples=40)
@given(SESSIONS)
def test_table_5_of_doc_v_star_is_over_the_sessions_that_invoke_the_tool(sessions):
    for tool, row in tool_table(sessions).items():
        called = [(each.gold, each.brought[tool]) for each in sessions if tool in each.brought]
        ratio, pages = [tool in each.brought for each in sessions], [len(brought) for _, brought in called]
        slow.assert_means(row, {"ratio": ratio, "pages": pages, **slow.page_lists(called)})


@settings(max_examples=40)
@given(st.lists(st.builds(AldenRow, st.sampled_from([*Label, None]), PAGES, PAGES), max_size=6))
def test_the_table_of_alden_equals_the_slow_reading(rows):
    table, pages = alden_table(rows), slow.page_lists((row.gold, row.collected) for row in rows)
    assert table.labels == {label: sum(row.label is label for row in rows) for label in Label}
    assert table.unlabelled == sum(row.label is None for row in rows)
    right, collected = [row.label == "Correct" for row in rows], [len(row.collected) for row in rows]
    shares = {"rec": pages["recall"], "pre": pages["precision"], "f1": pages["f1"]}
    slow.assert_means(table, {"acc": right, "up": collected, **shares})
