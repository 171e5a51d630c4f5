from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks import queries


def test_queries_are_distinct_and_each_is_asked_once():
    class Counting:
        asked: list[str]

        def encode_queries(self, texts):
            self.asked += texts
            return [np.zeros((1, 2), np.float32)]

    model = Counting()
    model.asked = []
    asked = queries.questions(40)
    assert len(set(asked)) == 40
    assert queries.ask(model, asked, 8) == 40
    assert sorted(model.asked) == sorted(asked)


@pytest.mark.slow
def test_the_table_has_a_row_a_way():
    import typer

    app = typer.Typer()
    app.command()(queries.main)
    shown = CliRunner().invoke(app, ["--count", "16", "--sessions", "4", "--repeats", "1"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("QueryEncoder") == 2
