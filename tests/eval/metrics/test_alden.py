from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.eval.metrics.alden import AldenRow, Label, alden_table, parse_label_judge
from docagent_rl.eval.metrics.scored import Mean


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("<label>Correct</label>", Label.CORRECT), ("ok <label> incorrect.\n</label>", Label.INCORRECT),
        ("<label>Tie / Unclear</label>", Label.TIE), ("<label>tie</label>", Label.TIE),
        ("<label>Unclear</label><label>Correct</label>", Label.TIE), ("<label>not correct</label>", None),
        ("Correct", None),
    ],
)  # fmt: skip
def test_replies_of_judges(reply, label):
    assert parse_label_judge(reply) is label


def test_the_worked_examples_as_a_table():
    table = alden_table(
        [
            AldenRow(Label.CORRECT, {5, 7}, {5, 6}),
            AldenRow(Label.INCORRECT, {40}, {39, 40}),
            AldenRow(Label.TIE, {3}, set()),
            AldenRow(Label.CORRECT, {2, 4, 6}, [4, 4, 6, 9]),
            AldenRow(None, set(), {1}),
        ]
    )
    assert table.acc == Mean(0.4, 5)
    assert table.rec == Mean(pytest.approx((0.5 + 1 + 0 + 2 / 3) / 4), 4)
    assert table.pre == Mean(pytest.approx((0.5 + 0.5 + 0 + 2 / 3) / 4), 4)
    assert table.f1 == Mean(pytest.approx((0.5 + 2 / 3 + 0 + 2 / 3) / 4), 4)
    assert table.up == Mean(pytest.approx((2 + 2 + 0 + 3 + 1) / 5), 5)
    assert (table.labels, table.unlabelled) == ({Label.CORRECT: 2, Label.INCORRECT: 1, Label.TIE: 1}, 1)


PAGES = st.sets(st.integers(1, 5), max_size=4)


@settings(max_examples=40)
@given(st.lists(st.builds(AldenRow, st.sampled_from([*Label, None]), PAGES, PAGES), max_size=6))
def test_equals_the_slow_reading(rows):
    table, known = alden_table(rows), [row for row in rows if row.gold]
    both = [len([page for page in row.gold if page in row.collected]) for row in known]
    sizes = [(len(row.gold), len(row.collected)) for row in known]
    lists = {
        "acc": [row.label == "Correct" for row in rows],
        "up": [len(row.collected) for row in rows],
        "rec": [n / gold for n, (gold, _) in zip(both, sizes, strict=True)],
        "pre": [n / found if found else 0 for n, (_, found) in zip(both, sizes, strict=True)],
        "f1": [2 * n / (gold + found) for n, (gold, found) in zip(both, sizes, strict=True)],
    }
    for name, values in lists.items():
        wanted = pytest.approx(sum(values) / len(values)) if values else None
        assert getattr(table, name) == Mean(wanted, len(values))
