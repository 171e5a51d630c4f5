from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import ray

PATIENCE_S = 120


class Clock:
    """Stands still unless it is moved."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The time of engines and queues."""
    from docagent_rl.watch import engines, places

    made = Clock()
    for module in (engines, places):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


@pytest.fixture(scope="module")
def running_ray():
    ray.init(
        address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False
    )
    yield
    ray.shutdown()


def until(find: Callable[[], Any]) -> Any:
    """What is found, as soon as it is something."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
