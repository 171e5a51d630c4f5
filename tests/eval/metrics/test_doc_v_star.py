from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.eval.metrics.doc_v_star import Tool, ToolPages, tool_pages, tool_table
from docagent_rl.eval.metrics.scored import Mean
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from tests.eval.scoring.sessions import recorded
from tests.systems.doc_v_star.play import answer, fetch, retrieve

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
    assert table[FP].ratio.value == 0.4
    assert (table[FP].recall, table[FP].precision) == (Mean(0.25, 2), Mean(0.5, 2))
    assert tool_table([])[FP].ratio == Mean(None, 0)


async def test_a_played_session_gives_the_numbers_of_its_environment(services, record, play):
    sample = record(doc_id="M", evidence_pages=(3, 4), extra={})
    turns = [
        retrieve("everypage pagem3"),
        fetch("[4, 3, 5]", "3"),
        fetch("[99]", "4"),
        "no form at all",
        answer("blue", "4"),
    ]
    env = DocVStarEnv(DocVStarConfig(retrieval={"pages": 2}), services)
    trajectory, metrics = await recorded(env, "doc_v_star", sample, turns, play)
    pages = tool_pages(trajectory)
    assert pages.gold == {3, 4}
    assert len(pages.brought[RP]) == 2
    assert 3 in pages.brought[RP]
    # shown before, page 3 is not brought again, and there is no page 99
    assert pages.brought[FP] == {4, 5} - pages.brought[RP]
    table = tool_table([pages])
    for tool, name in ((RP, "retrieval"), (FP, "fetch")):
        row = table[tool]
        assert row.ratio.value == metrics[f"{name}/used"]
        assert row.pages.value == metrics[f"{name}/pages"]
        assert row.recall.value == metrics[f"{name}/page_recall"]
        assert row.precision.value == metrics[f"{name}/page_precision"]
        assert row.f1.value == pytest.approx(metrics[f"{name}/page_f1"])


async def test_pages_that_did_not_fit_were_not_brought(services, record, play):
    sample = record(doc_id="M", evidence_pages=(3,), extra={})
    env = DocVStarEnv(DocVStarConfig(), services)
    trajectory, _ = await recorded(env, "doc_v_star", sample, [fetch("[3]"), answer()], play)
    trajectory.turns[0].dropped = True
    assert tool_pages(trajectory).brought == {FP: set()}


PAGES = st.sets(st.integers(1, 6), max_size=4)
SESSIONS = st.lists(
    st.builds(ToolPages, PAGES, st.dictionaries(st.sampled_from(list(Tool)), PAGES)), min_size=1, max_size=5
)


@settings(max_examples=40)
@given(SESSIONS)
def test_equals_the_slow_reading(sessions):
    """Table 5: over the samples that invoke the tool, page by page."""
    for tool, row in tool_table(sessions).items():
        called = [(each.gold, each.brought[tool]) for each in sessions if tool in each.brought]
        known = [(gold, brought) for gold, brought in called if gold]
        both = [sum(page in gold for page in brought) for gold, brought in known]
        sizes = [(len(gold), len(brought)) for gold, brought in known]
        recalls = [n / gold for n, (gold, _) in zip(both, sizes, strict=True)]
        precisions = [n / brought if brought else 0 for n, (_, brought) in zip(both, sizes, strict=True)]
        f1s = [2 * n / (gold + brought) for n, (gold, brought) in zip(both, sizes, strict=True)]
        for number, values in ((row.recall, recalls), (row.precision, precisions), (row.f1, f1s)):
            assert number.value == (pytest.approx(sum(values) / len(values)) if values else None)
        pages = [len(brought) for _, brought in called]
        assert row.ratio == Mean(len(called) / len(sessions), len(sessions))
        assert row.pages.count == len(called)
        assert row.recall.count == row.precision.count == row.f1.count == len(known)
        assert row.pages.value == (pytest.approx(sum(pages) / len(pages)) if pages else None)
