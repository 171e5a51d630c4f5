from __future__ import annotations

import asyncio
import time

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
    monkeypatch.setattr(module, "INTERVAL_S", 0.02)
    gauges = Gauges()
    gauges.watch_loop()
    await asyncio.sleep(0.01)
    time.sleep(0.3)  # what must not happen on an event loop
    await asyncio.sleep(0.05)
    assert 0.2 < gauges.read()["event_loop_lag_s"] < 5


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
