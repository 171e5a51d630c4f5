"""What is left of scores."""

import dataclasses
import json

import pytest

from docagent_rl.eval.probe.conditions import Condition
from docagent_rl.eval.probe.table import as_json, grids_of, is_ours, left_of
from docagent_rl.eval.scoring.protocols import protocol_of
from tests.eval.report.scores import scored

DATASET = "slidevqa"


def sessions(*values):
    name = protocol_of(DATASET).headline.value
    return [
        dataclasses.replace(scored(number, value, dataset=DATASET), values={name: value})
        for number, value in enumerate(values)
    ]


@pytest.fixture
def left():
    runs = {
        Condition.AS_IS: sessions(1.0, 1.0, 0.0, 0.5),
        Condition.BLANK: sessions(0.0, 0.5, 0.0, 0.5),
    }
    return left_of(runs)


def test_shares_and_changes(left):
    whole, blank = left
    assert (whole.condition, whole.value, whole.share) == (Condition.AS_IS, 0.625, 1.0)
    assert (blank.value, blank.change.value) == (0.25, -0.375)
    assert blank.share == pytest.approx(0.4)
    assert blank.change.questions == 4
    assert blank.change.low <= -0.375 <= blank.change.high


def test_nothing_is_left_of_nothing():
    runs = {Condition.AS_IS: sessions(0.0, 0.0), Condition.BLANK: sessions(0.0, 0.0)}
    assert [each.share for each in left_of(runs)] == [None, None]
    assert all(row[3] == "-" for row in grids_of(left_of(runs))[0].rows)


def test_a_table_and_its_numbers(left):
    (grid,) = grids_of(left)
    assert [row[0] for row in grid.rows] == ["as_is", "blank"]
    assert grid.rows[1][1] == "25.0"
    assert grid.rows[1][2].startswith("-37.5 [")
    assert grid.rows[1][3] == "40 %"
    text = as_json(left)
    assert is_ours(text.encode())
    assert json.loads(text)["left"][1]["share"] == pytest.approx(0.4)
    assert not is_ours(b"[]")
    assert not is_ours(b"\xff")
