"""Imports each module in a fork of its own in which nothing of verl or of this package is loaded yet."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import traceback
from collections import deque

AT_ONCE = os.cpu_count() or 1
OURS = ("docagent_rl", "hydra_plugins", "verl")


def loaded_by(module: str) -> list[str]:
    """Modules of others that an import brings in; found out in a fork."""

    def report() -> str:
        importlib.import_module(module)
        return "\n".join(name for name in sys.modules if name.partition(".")[0] not in OURS)

    return in_fork(report).splitlines()


def in_fork(play) -> str:
    """What `play` returns in a child process, or raises as text."""
    return told_by(*begun(play))


def begun(play) -> tuple[int, int]:
    """A child process that plays, and where it tells what came of it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as out:
            try:
                out.write(play())
            except BaseException:  # a fork must end here, with whatever it met told
                out.write("failed\n" + traceback.format_exc())
        os._exit(0)
    os.close(write)
    return child, read


def told_by(child: int, read: int) -> str:
    """What a child process tells; it has ended then."""
    with os.fdopen(read) as result:
        text = result.read()
    os.waitpid(child, 0)
    return text


def main() -> None:
    """Arguments: the module whose imports of others are shared, then the modules to import."""
    heavy, *modules = sys.argv[1:]
    for name in loaded_by(heavy):
        with contextlib.suppress(Exception):  # some can be imported from within their package only
            importlib.import_module(name)
    failures = {}
    waiting = deque()
    for name in [*modules, *[None] * AT_ONCE]:
        if len(waiting) == AT_ONCE or (name is None and waiting):
            earlier, child = waiting.popleft()
            if text := told_by(*child):
                failures[earlier] = text
        if name is not None:
            waiting.append((name, begun(lambda name=name: str(importlib.import_module(name))[:0])))
    assert not any(name.partition(".")[0] in OURS for name in sys.modules), "the forks did not start bare"
    print(json.dumps(failures))


if __name__ == "__main__":
    main()
