import importlib
import sys
import uuid

import pytest

from docagent_rl.training import patching
from docagent_rl.training.patching import PatchState as State


@pytest.fixture
def make_module(tmp_path, monkeypatch):
    """Return a function that writes modules of new names, which can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def make(source: str = "value = 1") -> str:
        name = f"m_{uuid.uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        names.append(name)
        return names[-1]

    yield make
    for name in names:
        sys.modules.pop(name, None)


def values_of(name: str) -> list[int]:
    """Return the values that a callback sees, one for each call."""
    seen: list[int] = []
    patching.on_import(name, lambda module: seen.append(module.value))
    return seen


def test_callbacks_run_in_order_behind_the_body_of_the_module(make_module):
    name = make_module("value = 1\nvalue = 2")
    seen = values_of(name)
    patching.on_import(name, lambda module: seen.append(module.value + 1))
    assert seen == []
    importlib.import_module(name)
    assert seen == [2, 3]
    assert values_of(name) == [2]  # at once, for an imported module


def test_module_whose_import_began_without_a_hook_is_refused(make_module):
    name = make_module(
        "from docagent_rl.training.patching import on_import\non_import(__name__, print)"
    )
    with pytest.raises(RuntimeError, match=name):
        importlib.import_module(name)


@pytest.fixture
def installed(monkeypatch, make_module):
    """Install only a patch that doubles the value of a module; import the module, and return it and
    the patch's status.
    """
    monkeypatch.setattr(patching, "_statuses", {})

    def run(source: str = "value = 1", **changes):
        fields = {"name": "double", "package": "packaging", "versions": ">=1", "reason": "a test"}
        fields |= {"reference": "a test", "target_module": make_module(source), **changes}
        fields["processes"] = patching.TRAINING
        patch = patching.Patch(
            **fields, apply=lambda module: setattr(module, "value", module.value * 2)
        )
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


def test_each_module_of_a_patch_is_changed_by_its_own_import(monkeypatch, make_module):
    monkeypatch.setattr(patching, "_statuses", {})
    first, second = make_module(), make_module()
    patch = patching.Patch(
        name="double",
        package="packaging",
        versions=">=1",
        reference="a test",
        reason="a test",
        target_module=first,
        more_modules=(second,),
        processes=patching.TRAINING,
        apply=lambda module: setattr(module, "value", module.value * 2),
    )
    patching.install([patch])
    assert importlib.import_module(second).value == 2  # nobody has imported the first one
    (status,) = patching.patch_status()
    assert (status.state, status.waiting) == (State.WAITING, (first,))
    assert importlib.import_module(first).value == 2
    (status,) = patching.patch_status()
    assert (status.state, status.waiting, status.detail) == (
        State.APPLIED,
        (),
        f"{first}, {second}",
    )
