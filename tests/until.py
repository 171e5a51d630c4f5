"""`--until`: tests that would begin later are skipped, and say so."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "seconds since 1970: tests that would begin later are skipped; files in an order of its own"
    parser.addoption("--until", type=float, help=text)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    until = config.getoption("--until")
    if until is not None:  # others are left out another time
        items.sort(key=lambda item: place(until, item.path))


def place(until: float, path: Path) -> str:
    """Of a file among all; the same in every process."""
    return hashlib.sha256(f"{until}/{path.name}/{path.parent.name}".encode()).hexdigest()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.getoption("--until")
    if until is not None and time.time() > until:
        pytest.skip("the time for slow tests is up: `make test-all` has no such limit")
