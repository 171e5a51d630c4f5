from __future__ import annotations

import importlib
import sys
import threading
import uuid
from types import ModuleType

import pytest

from docagent_rl.training import hardware, patching
from docagent_rl.training.patching import PatchState as State


@pytest.fixture
def make_module(tmp_path, monkeypatch):
    """Write modules of fresh names that can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def make(source: str = "value = 1", parent: str | None = None) -> str:
        name = f"m_{uuid.uuid4().hex}"
        folder = tmp_path / parent if parent else tmp_path
        folder.mkdir(exist_ok=True)
        if parent:
            (folder / "__init__.py").touch()
        (folder / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        names.append(f"{parent}.{name}" if parent else name)
        return names[-1]

    yield make
    for name in names:
        sys.modules.pop(name, None)


def values_of(name: str) -> list[int]:
    """The values that a callback sees, one for each call."""
    seen: list[int] = []
    patching.on_import(name, lambda module: seen.append(module.value))
    return seen


@pytest.mark.parametrize(
    "source",
    [
        "value = 1\nvalue = 2",
        "import sys, types\nsys.modules[__name__] = types.SimpleNamespace(value=2)",  # replaces itself
    ],
)
def test_callback_runs_after_the_body_of_the_module(make_module, source):
    name = make_module(source)
    seen = values_of(name)
    assert seen == []
    importlib.import_module(name)
    assert seen == [2]
    assert values_of(name) == [2]  # at once, for an imported module


def test_callbacks_run_in_order_and_once_an_import(make_module):
    parent, seen = f"p_{uuid.uuid4().hex}", []
    name = make_module(parent=parent)
    for index in range(3):
        patching.on_import(name, lambda _, index=index: seen.append(index))
    importlib.import_module(parent)
    assert seen == []
    exec(f"from {parent} import {name.split('.')[1]}", {})
    importlib.import_module(name)
    assert seen == [0, 1, 2]
    importlib.reload(sys.modules[name])
    del sys.modules[name]
    importlib.import_module(name)
    assert seen == [0, 1, 2] * 3


def test_errors_of_a_callback_and_of_a_module_fail_the_import_every_time(make_module):
    bad, broken = make_module(), make_module("raise ZeroDivisionError")
    patching.on_import(bad, lambda module: module.no_such_thing)
    seen = values_of(broken) + values_of("no_such_module_of_docagent")
    errors = {bad: AttributeError, broken: ZeroDivisionError, "no_such_module_of_docagent": ImportError}
    for name, error in [*errors.items()] * 2:
        with pytest.raises(error):
            importlib.import_module(name)
        assert name not in sys.modules
    assert seen == []


def test_registration_while_another_thread_executes_the_module(make_module, monkeypatch):
    gate = ModuleType("gate")
    gate.enter, gate.leave = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "gate", gate)
    name = make_module("import gate\ngate.enter.set()\ngate.leave.wait(60)\nvalue = 1")
    seen = values_of(name)
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    try:
        assert gate.enter.wait(60)
        later = values_of(name)
        assert later == []  # half executed: `value` does not exist yet
    finally:
        gate.leave.set()
        thread.join(60)
    assert (seen, later) == ([1], [1])


def test_finder_that_searches_through_all_finders_does_not_recurse(make_module, monkeypatch):
    name, busy = make_module(), []
    seen = values_of(name)

    class Curious:
        @staticmethod
        def find_spec(fullname, path=None, target=None):
            if fullname != name or busy:
                return None
            busy.append(1)
            try:
                return importlib.util.find_spec(fullname)
            finally:
                busy.clear()

    monkeypatch.setattr(sys, "meta_path", [Curious, *sys.meta_path])
    importlib.import_module(name)
    assert seen == [1]


def test_module_whose_import_began_without_a_hook_is_refused(make_module):
    name = make_module("from docagent_rl.training.patching import on_import\non_import(__name__, print)")
    with pytest.raises(RuntimeError, match=name):
        importlib.import_module(name)


@pytest.fixture
def installed(monkeypatch, make_module):
    """Install a patch alone, which doubles the value of a module; import it and give both and its status."""
    monkeypatch.setattr(patching, "_statuses", {})

    def run(source: str = "value = 1", **changes):
        fields = {"name": "double", "package": "packaging", "versions": ">=1", "reason": "a test"}
        fields |= {"reference": "a test", "target_module": make_module(source), **changes}
        patch = patching.Patch(**fields, apply=lambda module: setattr(module, "value", module.value * 2))
        patching.install([patch])
        before = patching.patch_status()[0].state
        module = importlib.import_module(patch.target_module)
        patching.install([patch])
        (status,) = patching.patch_status()
        return module.value, before, status

    return run


@pytest.mark.parametrize(
    ("changes", "value", "state"),
    [
        ({}, 2, State.APPLIED),
        ({"versions": "<1"}, 1, State.VERSION_MISMATCH),
        ({"package": "no-such-distribution"}, 1, State.NOT_NEEDED),
        ({"needed": lambda: False}, 1, State.NOT_NEEDED),
    ],
)
def test_patch_is_applied_once_or_does_not_fit_and_is_reported(installed, changes, value, state):
    found, before, status = installed(**changes)
    assert (found, status.state) == (value, state)
    assert before is (State.WAITING if value == 2 else state)
    assert status.detail


@pytest.mark.parametrize(("is_cpu", "value"), [(True, 2), (False, 1)])
def test_cpu_patch_follows_the_platform(installed, monkeypatch, is_cpu, value):
    monkeypatch.setattr(hardware, "is_cpu_platform", lambda: is_cpu)
    assert installed(applies_to=patching.AppliesTo.CPU_ONLY)[0] == value
