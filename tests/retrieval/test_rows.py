from __future__ import annotations

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from docagent_rl.retrieval.rows import PageRows


def test_pages_and_rows_are_each_others():
    rows = PageRows(["a", "b"], [2, 3])
    assert list(rows) == [PageRef("a", 1), PageRef("a", 2), PageRef("b", 1), PageRef("b", 2), PageRef("b", 3)]
    assert [rows.ref(row) for row in range(len(rows))] == list(rows)
    assert rows.rows(list(rows)).tolist() == [0, 1, 2, 3, 4]
    assert (rows.span("b"), rows.span(None)) == ((2, 5), (0, 5))


def test_unknown_pages_have_no_row():
    rows = PageRows(["a"], [2])
    assert rows.rows([PageRef("a", 3), PageRef("z", 1), PageRef("a", 2)]).tolist() == [1]
    with pytest.raises(UserError, match="'z'"):
        rows.span("z")
