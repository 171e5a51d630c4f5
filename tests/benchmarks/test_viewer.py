from __future__ import annotations

import pytest

from benchmarks import viewer
from benchmarks.viewer_page import CHROMIUM
from tests.corpus import store  # noqa: F401  a fixture
from tests.viewer_runs import run_folder, session


@pytest.mark.slow
def test_the_table_has_a_row_a_part(tmp_path, store, capsys):  # noqa: F811
    run = run_folder(tmp_path / "run", [session(store, 0), session(store, 1)])
    viewer.main(run, sessions=30, tokens=7, turns=11, rows=4)
    said = capsys.readouterr().out
    assert "index of 30 sessions" in said
    assert "a session of 11 turns" in said
    assert "bytes a token" in said
    assert "page: with its tokens, scrolled" in said or CHROMIUM is None
    assert not (run / "view.sqlite").exists()
