"""Table 5; `tests/eval/scoring/test_played.py` holds it against a played session."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.eval.metrics.doc_v_star import Tool, ToolPages, tool_table
from docagent_rl.eval.metrics.scored import Mean

RP, FP = Tool.RETRIEVAL, Tool.FETCH


def test_each_tool_is_averaged_over_the_sessions_that_call_it():
    table = tool_table(
        [
            ToolPages({3, 4}, {RP: {3, 9}, FP: {4}}),
            ToolPages({5}, {RP: {5, 6, 7, 8}}),
            ToolPages({5}, {}),
            ToolPages((), {RP: {1, 2, 3}}),
            ToolPages({5}, {FP: ()}),
        ]
    )
    assert table[RP].ratio == Mean(pytest.approx(0.6), 5)
    assert table[RP].recall == Mean(0.75, 2)
    assert table[RP].precision == Mean(0.375, 2)
    assert table[RP].f1 == Mean(pytest.approx((0.5 + 0.4) / 2), 2)
    assert table[RP].pages == Mean(3.0, 3)
    assert (table[FP].ratio.value, table[FP].recall, table[FP].precision) == (
        0.4,
        Mean(0.25, 2),
        Mean(0.5, 2),
    )


PAGES = st.sets(st.integers(1, 6), max_size=4)
SESSIONS = st.lists(
    st.builds(ToolPages, PAGES, st.dictionaries(st.sampled_from(list(Tool)), PAGES)), max_size=5
)


@settings(max_examples=40)
@given(SESSIONS)
def test_equals_the_slow_reading(sessions):
    """Over the samples that invoke the tool, page by page."""
    for tool, row in tool_table(sessions).items():
        called = [(each.gold, each.brought[tool]) for each in sessions if tool in each.brought]
        known = [
            (sum(page in gold for page in brought), len(gold), len(brought))
            for gold, brought in called
            if gold
        ]
        lists = {
            "ratio": [tool in each.brought for each in sessions],
            "pages": [len(brought) for _, brought in called],
            "recall": [both / gold for both, gold, _ in known],
            "precision": [both / brought if brought else 0 for both, _, brought in known],
            "f1": [2 * both / (gold + brought) for both, gold, brought in known],
        }
        for name, values in lists.items():
            wanted = pytest.approx(sum(values) / len(values)) if values else None
            assert getattr(row, name) == Mean(wanted, len(values))
