"""Record the lines that each test runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import pytest


@dataclass(slots=True)
class Reached:
    """The lines of some files that tests run.

    Attributes:
        lines: pairs of path and line by test; the key "" has the lines that run when modules are
            imported or fixtures are set up.
        seconds: the seconds that each test takes, in the tests' order.
    """

    lines: dict[str, set[tuple[str, int]]] = field(default_factory=lambda: {"": set()})
    seconds: dict[str, float] = field(default_factory=dict)

    def everywhere(self, path: Path, lines: Iterable[int]) -> bool:
        """Return whether an import or a fixture runs any of the lines."""
        return not self.lines[""].isdisjoint((str(path), line) for line in lines)

    def tests(self, path: Path, lines: Iterable[int], tests: Sequence[str]) -> list[str]:
        """Return the tests that can detect a change of some lines.

        These are the tests that run any of the lines, or all tests if an import or a fixture does.
        Tests of the mirrored file come first, then faster tests before slower ones.
        """
        places = {(str(path), line) for line in lines}
        reaching = {name for name, run in self.lines.items() if name and not run.isdisjoint(places)}
        everywhere = self.everywhere(path, lines)
        mirrored = f"{Path(tests[0], *path.parts[2:-1], f'test_{path.stem}')}.py::"
        wanted = tuple(f"{name}{end}" for name in tests for end in ("/", "::"))
        return sorted(
            (n for n in self.seconds if (n in reaching or everywhere) and n.startswith(wanted)),
            key=lambda name: (
                not name.startswith(mirrored),
                name not in reaching,
                self.seconds[name],
            ),
        )


class Reach:
    """A pytest plugin that records the lines of some files that each test runs, and its time."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = {str(path.resolve()): str(path) for path in paths}
        self.found = Reached()
        self._now = self.found.lines[""]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Record one test."""
        forget(self._paths)
        began = time.monotonic()
        self._now = self.found.lines.setdefault(item.nodeid, set())
        yield
        self._now = self.found.lines[""]
        self.found.seconds[item.nodeid] = time.monotonic() - began

    def watch(self) -> None:
        """Start recording, before any of the files is imported."""
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    @staticmethod
    def pause() -> None:
        """Stop recording, or let other plugins run."""
        threading.settrace(None)  # ty: ignore[invalid-argument-type]
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, arg: object) -> Callable | None:
        del event, arg
        path = self._paths.get(frame.f_code.co_filename)
        if path is None:
            return None

        def note(frame: FrameType, event: str, arg: object) -> Callable:
            del event, arg
            self._now.add((path, frame.f_lineno))
            return note

        return note


def forget(paths: Iterable[str]) -> None:
    """Clear the caches of functions in these files."""
    ours = set(paths)
    for module in [
        each for each in sys.modules.values() if getattr(each, "__file__", None) in ours
    ]:
        for kept in vars(module).values():
            if hasattr(kept, "cache_clear") and kept.cache_parameters()["maxsize"] is not None:
                kept.cache_clear()
