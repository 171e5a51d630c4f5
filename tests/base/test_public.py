"""Packages that load a name only when it is used."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from docagent_rl.base.public import promised
from tools.public_names import PACKAGES

ROOT = Path(__file__).parents[2]


def stub_of(name):
    return ROOT.joinpath("docagent_rl", *name.split("."), "__init__.pyi")


STUBS = [name for name in PACKAGES if stub_of(name).is_file()]


@pytest.mark.parametrize("name", STUBS)
def test_a_package_has_the_names_of_its_stub_and_no_others(name):
    package = import_module(f"docagent_rl.{name}")
    stub = promised(stub_of(name))
    assert package.__all__ == sorted(stub)
    assert all(getattr(package, each) is not None for each in stub)
    with pytest.raises(AttributeError, match=f"docagent_rl.{name}"):
        _ = package.nothing_of_the_kind


def test_a_package_costs_what_is_taken_from_it():
    code = f"""
import sys, json
for name in {STUBS}:
    __import__("docagent_rl." + name)
before = sorted(name for name in sys.modules if name.startswith("docagent_rl"))
from docagent_rl.envs import System, ToolEnv
print(json.dumps([before, sorted({{"torch", "verl", "ray", "transformers"}} & sys.modules.keys())]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, heavy = json.loads(done.stdout)
    packages = {f"docagent_rl.{name}" for name in STUBS}
    above = {"docagent_rl", "docagent_rl.base", "docagent_rl.base.public", "docagent_rl.lab"}
    assert set(before) == packages | above
    assert heavy == []


def test_a_configuration_costs_no_torch():
    code = "import sys, docagent_rl.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_estimator_of_ones_own_meets_those_of_the_package():
    code = """
import docagent_rl.advantages as advantages
assert {"turn_gae", "spo", "trajectory_grpo"} <= advantages.registered_estimators().keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
