"""Measure the time and memory that the viewer's page takes in a browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
"""The path of Chromium; None if it is not installed."""
_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_WAIT_MS = 60_000
_SCROLLS, _SCROLL_PX, _REST_MS = 20, 4_000, 60


@dataclass(frozen=True, slots=True)
class PageCost:
    """The time and memory of a view that was opened in a page of its own.

    Args:
        view: the view's name.
        seconds: seconds from entering the address to the view's first line.
        heap: bytes of JavaScript's heap after a garbage collection.
        nodes: the number of nodes in the page.
    """

    view: str
    seconds: float
    heap: int
    nodes: int


def page_costs(run: Path, trajectory: str) -> list[PageCost]:
    """Measure the list of trajectories, and a long trajectory without and with its tokens.

    The list is measured before and after scrolling.

    Args:
        run: a run's folder whose index is built.
        trajectory: the long trajectory's number in the index.
    """
    from playwright.sync_api import sync_playwright

    rows, turns = "table.rows tbody tr:not(.spacer)", "article.turn:not(.prompt)"
    coloured = f"#/trajectory/0/{trajectory}?colour=drift"
    with _served(run) as served, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        try:
            return [
                _opened(browser, served, "the list", "#/trajectories", rows),
                _opened(browser, served, "the list, scrolled", "#/trajectories", rows, _scroll),
                _opened(
                    browser, served, "the long trajectory", f"#/trajectory/0/{trajectory}", turns
                ),
                _opened(browser, served, "with its tokens, scrolled", coloured, "span.tk", _scroll),
            ]
        finally:
            browser.close()


def _opened(
    browser: Any, served: str, view: str, address: str, first: str, then: Any = lambda page: None
) -> PageCost:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        page = context.new_page()
        began = time.perf_counter()
        page.goto(f"{served}{address}")
        page.locator(first).first.wait_for(timeout=_WAIT_MS)
        seconds = time.perf_counter() - began
        then(page)
        tools = context.new_cdp_session(page)
        tools.send("Performance.enable")
        tools.send("HeapProfiler.collectGarbage")
        found = {
            each["name"]: each["value"] for each in tools.send("Performance.getMetrics")["metrics"]
        }
        return PageCost(view, seconds, int(found["JSHeapUsedSize"]), int(found["Nodes"]))
    finally:
        context.close()


def _scroll(page: Any) -> None:
    page.mouse.move(720, 600)
    for _ in range(_SCROLLS):
        page.mouse.wheel(0, _SCROLL_PX)
        page.wait_for_timeout(_REST_MS)


@contextmanager
def _served(run: Path) -> Iterator[str]:
    """Serve a run with `docagent-rl view`, and yield the address."""
    command = [sys.executable, "-m", "docagent_rl.cli", "view", str(run), "--no-open"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}
    )
    try:
        said = process.stdout.readline() if process.stdout is not None else ""
        found = re.search(r"http://\S+", said)
        if found is None:
            raise RuntimeError(f"the viewer did not start: {said}")
        yield found[0]
    finally:
        process.terminate()
        process.wait(10)
