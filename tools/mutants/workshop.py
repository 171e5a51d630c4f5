"""Try mutants of functions without imports, by replacing the code of functions in a fork.

The forked process has collected the tests already.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import os
import pickle
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tools.mutants.reach import Reach, Reached, forget
from tools.mutants.trial import OURS, fork, replace


class Workshop:
    """A pytest plugin that runs all collected tests once, and then tries mutants.

    Args:
        paths: the files that are changed.
        work: called with the workshop to try the mutants.
    """

    def __init__(self, paths: Sequence[Path], work: Callable[[Workshop], None]) -> None:
        self._paths = [path.resolve() for path in paths]
        self._work = work
        self.reach = Reach(paths)
        self.reached = Reached()
        self.libraries: list[str] = []
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[str, list[FunctionType]] = {}
        self._sources = {str(path): path.read_text(encoding="utf-8") for path in self._paths}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests once, then try the mutants, in place of pytest's own loop.

        Raises:
            UsageError: the tests fail without a mutant.
        """
        for path in self._paths:
            # import while lines are recorded: otherwise the lines of a module that a test imports
            # first would count as run only by that test
            importlib.import_module(_module_of(path))
        self.reach.pause()
        if session.testsfailed:
            raise pytest.UsageError("some tests cannot be collected")
        self._items = {item.nodeid: item for item in session.items}
        self._functions = _functions({str(path) for path in self._paths})
        self._run_once(session)
        self._work(self)
        return True

    def _run_once(self, session: pytest.Session) -> None:
        read, write = os.pipe()

        def run() -> int:
            session.config.pluginmanager.register(self.reach)
            self.reach.watch()
            status = _run(session, session.items)
            self.reach.pause()
            names = [name for name in sys.modules if name.partition(".")[0] not in OURS]
            with os.fdopen(write, "wb") as out:
                pickle.dump((names, self.reach.found), out)
            return status

        child = fork(run)
        os.close(write)
        with os.fdopen(read, "rb") as result:
            text = result.read()
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise pytest.UsageError("the tests fail without a mutant")
        self.libraries, self.reached = pickle.loads(text)

    def start(self, path: Path, source: str, tests: Sequence[str]) -> int | None:
        """Start the trial of a changed module; return the process id of its fork.

        Returns:
            `None` if the change is not in functions that are already loaded, so that an import is
            needed.
        """
        name = str(path.resolve())
        before, after = (
            _code(text, name) for text in (ast.unparse(ast.parse(self._sources[name])), source)
        )
        if _skeleton(before) != _skeleton(after):
            return None
        places = {
            (code.co_qualname, code.co_firstlineno): key
            for key, code in _codes(_code(self._sources[name], name))
        }
        codes = dict(_codes(after))
        changes = [(f, codes.get(places.get(_place(f)))) for f in self._functions[name]]
        if any(code is None or code.co_freevars != f.__code__.co_freevars for f, code in changes):
            return None

        def run() -> int:
            replace(path, source)  # for tests that load the file again
            for function, code in changes:
                function.__code__ = code
            forget([name])
            items = [self._items[test] for test in tests]
            return _run(items[0].session, items)

        return fork(run)


def _module_of(path: Path) -> str:
    """Return the name under which a file of this repository is imported."""
    parts = path.relative_to(Path.cwd()).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _functions(names: set[str]) -> dict[str, list[FunctionType]]:
    """Return all functions of some files that are currently loaded."""
    found = defaultdict(list)
    gc.unfreeze()
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename in names:
            found[each.__code__.co_filename].append(each)
    gc.freeze()
    return found


def _code(text: str, name: str) -> CodeType:
    return compile(text, name, "exec", dont_inherit=True)


def _place(function: FunctionType) -> tuple[str, int]:
    return function.__code__.co_qualname, function.__code__.co_firstlineno


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Yield the code objects inside a code object by name, with a number for equal names."""
    seen = Counter[str]()
    waiting = [code]
    while waiting:
        for inner in waiting.pop().co_consts:
            if isinstance(inner, CodeType):
                yield (inner.co_qualname, seen[inner.co_qualname]), inner
                seen[inner.co_qualname] += 1
                waiting.append(inner)


def _skeleton(code: CodeType) -> tuple:
    """Return the parts of a code object that an import runs: all but the bodies of functions."""
    inner = tuple(
        _skeleton(each) if not each.co_flags & inspect.CO_OPTIMIZED else each.co_qualname
        for each in code.co_consts
        if isinstance(each, CodeType)
    )
    others = tuple(repr(each) for each in code.co_consts if not isinstance(each, CodeType))
    return code.co_code, code.co_names, others, inner


def _run(session: pytest.Session, items: Sequence[pytest.Item]) -> int:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0
