"""Modules and files that are named in texts, docs and settings exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = (".py", ".md", ".yaml", ".toml", ".sh")
FOLDERS = ("docagent_rl", "docs", "recipes", "patches", "examples", "benchmarks", "tools")
FILE = re.compile(
    r"(?<![\w/.])((?:docagent_rl|tests|tools|examples|benchmarks|recipes)/[\w./-]+\.(?:py|yaml|sh|toml))"
)
OF_A_RELEASE = re.compile(r"\(release:\s[^)]*\)|Released code: .*")
"""Files of the systems' own code, which recipes name."""
MADE = frozenset({"docagent_rl.training.cpu_device"})
"""Modules that are made while a process runs."""
MODULE = re.compile(r"\bdocagent_rl(?:\.[a-z]\w*)+")


def texts() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile"))
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in SUFFIXES and "node_modules" not in file.parts:
                yield file


def is_there(name: str) -> bool:
    """Return whether a dotted name is a module of ours, or a name in the last module on the way."""
    place = ROOT / "docagent_rl"
    for part in name.split(".")[1:]:
        if (place / f"{part}.py").is_file():
            return True
        if not (place / part).is_dir():
            start = place / "__init__.py"
            return (
                start.is_file()
                and re.search(rf"\b{part}\b", start.read_text(encoding="utf-8")) is not None
            )
        place /= part
    return True


@pytest.mark.parametrize("folder", [*FOLDERS, "."])
def test_modules_and_files_that_are_named_are_there(folder):
    missing = []
    for file in texts():
        own = file.relative_to(ROOT).parts
        if folder != (own[0] if len(own) > 1 else "."):
            continue
        text = OF_A_RELEASE.sub("", file.read_text(encoding="utf-8"))
        missing += [(own, name) for name in {*MODULE.findall(text)} - MADE if not is_there(name)]
        missing += [(own, name) for name in FILE.findall(text) if not (ROOT / name).exists()]
    assert missing == []
