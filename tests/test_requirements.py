"""The pins are complete, have hashes, and agree in both files where they can."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(
    r"([a-z0-9][a-z0-9-]*)==([^ ;\\]+)(?: ;[^\\]*)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n"
)


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


def test_the_build_backend_is_pinned():
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    found = pins("build")
    assert all(
        Requirement(line).specifier.contains(found[Requirement(line).name]) for line in backend
    )
    assert {"editables", "setuptools"} <= set(found)
    assert set(pins("uv")) == {"uv"}
