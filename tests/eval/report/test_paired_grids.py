"""Tables of a comparison."""

from __future__ import annotations

from docagent_rl.eval.report.paired import compare
from docagent_rl.eval.report.paired_grids import paired_grids
from docagent_rl.eval.scoring.numbers import USE
from tests.eval.report.scores import SCORE, scored

MEASURES = [SCORE, *(measure for measure in USE if measure.name in ("turns", "seconds", "cost"))]


def run(gain):
    for n in range(6):
        each = scored(n, n % 2)
        each.values.update(turns=3.0, seconds=12.34 + gain, cost=0.00042 + 0.0001 * gain)
        yield each


def test_numbers_are_shown_by_their_unit_in_every_column():
    table = paired_grids(compare(list(run(0)), list(run(1)), MEASURES, draws=20), "a", "b", "Own")[0]
    shown = {row[0]: row[1:4] for row in table.rows}
    assert shown["score"][:2] == ("50.0", "50.0")
    assert shown["turns"][:2] == ("3.00", "3.00")
    assert shown["seconds"] == ("12.3", "13.3", "+1.0 [+1.0, +1.0]")
    assert shown["cost of a session"] == ("0.00042", "0.00052", "+0.00010 [+0.00010, +0.00010]")
