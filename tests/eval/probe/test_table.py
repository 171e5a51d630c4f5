"""What is left of scores."""

import json

import pytest

from docagent_rl.eval.probe.conditions import Condition
from docagent_rl.eval.probe.table import as_json, grids_of, is_ours, left_of
from docagent_rl.eval.scoring.protocols import protocol_of
from tests.eval.report.scores import scored


def left(as_is, blank):
    name = protocol_of("slidevqa").headline.value
    runs = {
        condition: [scored(n, 0, dataset="slidevqa", values={name: value}) for n, value in enumerate(values)]
        for condition, values in ((Condition.AS_IS, as_is), (Condition.BLANK, blank))
    }
    return left_of(runs)


def test_shares_and_changes_and_their_table():
    whole, blank = found = left((1.0, 1.0, 0.0, 0.5), (0.0, 0.5, 0.0, 0.5))
    assert (whole.condition, whole.value, whole.share) == (Condition.AS_IS, 0.625, 1.0)
    assert (blank.value, blank.change.value, blank.change.questions) == (0.25, -0.375, 4)
    assert blank.share == pytest.approx(0.4)
    assert blank.change.low <= -0.375 <= blank.change.high
    (grid,) = grids_of(found)
    assert [row[:2] for row in grid.rows] == [("as_is", "62.5"), ("blank", "25.0")]
    assert grid.rows[1][2].startswith("-37.5 [")
    assert grid.rows[1][3] == "40 %"
    text = as_json(found)
    assert json.loads(text)["left"][1]["share"] == pytest.approx(0.4)
    assert [is_ours(each) for each in (text.encode(), b"[]", b"\xff")] == [True, False, False]


def test_nothing_is_left_of_nothing():
    found = left((0.0, 0.0), (0.0, 0.0))
    assert [each.share for each in found] == [None, None]
    assert all(row[3] == "-" for row in grids_of(found)[0].rows)
