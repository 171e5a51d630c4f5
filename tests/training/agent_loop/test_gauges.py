from __future__ import annotations

import asyncio
from types import SimpleNamespace

from docagent_rl.training.agent_loop import gauges as module
from docagent_rl.training.agent_loop.gauges import Gauges, step_gauges


def test_the_largest_value_since_the_last_look():
    gauges = Gauges()
    for value in (1.0, 5.0, 2.0):
        gauges.note("sessions_waiting", value)
    assert gauges.read() == {"sessions_waiting": 5.0}
    gauges.note("sessions_waiting", 3.0)
    assert gauges.read() == {"sessions_waiting": 3.0}


async def test_a_loop_that_is_held_up_is_late(monkeypatch):
    times, noted = iter([100.0, 103.0]), asyncio.Event()
    monkeypatch.setattr(module, "INTERVAL_S", 0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(times, 103.0)))
    gauges = Gauges()
    monkeypatch.setattr(gauges, "note", lambda name, value: noted.set() or Gauges.note(gauges, name, value))
    gauges.watch_loop()
    await asyncio.wait_for(noted.wait(), 60)
    assert gauges.read() == {"event_loop_lag_s": 3.0}


def test_bytes_add_up_and_the_worst_lag_counts():
    workers = [
        {"event_loop_lag_s": 0.1, "images_bytes": 5.0},
        {"event_loop_lag_s": 0.4, "images_bytes": 7.0},
    ]
    assert step_gauges(workers, {"shelf_bytes": 3.0}) == {
        "docagent/workers/event_loop_lag_s": 0.4,
        "docagent/workers/images_bytes": 12.0,
        "docagent/workers/shelf_bytes": 3.0,
    }
