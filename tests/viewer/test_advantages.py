from __future__ import annotations

import numpy as np
import pytest

from docagent_rl.rollout.credit import CreditRow, credit_file, write_credit
from tests.viewer_runs import run_folder, session


def row(number, *values, index=0):
    return CreditRow("group1", number, index, {"advantages": np.array(values, np.float32)})


@pytest.fixture
def folder(tmp_path, store):
    made = [session(store, 0), session(store, 1), session(store, 0, split="val")]
    return run_folder(tmp_path / "run", made)


def listed(ask, query="split=train&sort=advantage"):
    return [(each["session"], each["advantage"]) for each in ask(f"/api/runs/0/sessions?{query}")["rows"]]


def test_lists_are_sorted_and_filtered_by_advantage(folder, asked):
    write_credit(folder, 1, "grpo", [row(0, 1.0, 1.0), row(0, 4.0, index=1), row(1, -0.5)])
    ask = asked(folder)
    assert listed(ask) == [(1, -0.5), (0, 2.0)]
    assert listed(ask, "advantage=0:") == [(0, 2.0)]
    assert listed(ask, "split=val") == [(0, None)]


def test_credit_comes_after_its_sessions_and_stays_when_they_are_read_again(folder, asked, store):
    ask = asked(folder)
    (run,) = ask.api.runs
    assert listed(ask) == [(0, None), (1, None)]
    write_credit(folder, 1, "grpo", [row(0, 1.0), row(1, 2.0)])
    assert run.update()
    assert not run.update()
    assert listed(ask) == [(0, 1.0), (1, 2.0)]
    run_folder(folder, [session(store, 0), session(store, 1), session(store, 2)])
    assert run.update()
    assert listed(ask) == [(0, 1.0), (1, 2.0), (2, None)]


def test_damaged_credit_is_none(folder, asked, caplog):
    write_credit(folder, 1, "grpo", [row(0, 1.0)]).write_bytes(b"PAR1")
    assert listed(asked(folder)) == [(0, None), (1, None)]
    assert str(credit_file(folder, 1)) in caplog.text
