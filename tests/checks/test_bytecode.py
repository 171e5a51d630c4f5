from __future__ import annotations

import compileall
import importlib

import pytest

from docagent_rl.checks.bytecode import check_bytecode
from docagent_rl.checks.doctor import check_system


@pytest.fixture
def gadget(tmp_path, monkeypatch):
    """A package that nobody has compiled."""
    (tmp_path / "gadget_of_a_test").mkdir()
    (tmp_path / "gadget_of_a_test" / "__init__.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return tmp_path


def test_packages_that_are_not_compiled_are_named_with_what_to_do(gadget, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    found = check_bytecode(["gadget_of_a_test", "no_such_package"])
    assert found.value == "gadget_of_a_test not compiled"
    assert found.advice.endswith(f"(PYTHONDONTWRITEBYTECODE): python -m compileall -qq -j 0 {gadget}")
    assert not found.blocks
    assert compileall.compile_dir(gadget, quiet=2)
    assert check_bytecode(["gadget_of_a_test"]).value == "compiled"


def test_the_doctor_looks():
    assert "compiled" in {check.name: check for check in check_system()}["packages"].value
