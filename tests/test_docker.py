"""The images' files, read line by line; no image is built."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MACHINES = ["cpu", "gpu"]


def instructions(machine: str) -> list[tuple[str, str]]:
    text = (ROOT / "docker" / f"Dockerfile.{machine}").read_text()
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", text))
    return [
        (line.split(None, 1)[0], line.split(None, 1)[1])
        for line in joined.splitlines()
        if line.strip()
    ]


def values(machine: str, name: str) -> list[str]:
    return [value for kind, value in instructions(machine) if kind == name]


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_copied_is_there_and_tracked(machine):
    files = [path for line in values(machine, "COPY") for path in shlex.split(line)[1:-1]]
    assert f"requirements/{machine}.txt" in files
    assert all((ROOT / path).exists() for path in files)


@pytest.mark.parametrize("machine", MACHINES)
def test_packages_are_those_of_the_pins_with_their_hashes(machine):
    first, last = values(machine, "RUN")[-2:]
    python = "python3.12" if machine == "gpu" else "python3.11"
    assert f"--require-hashes -r requirements/{machine}.txt" in first
    assert "--require-hashes -r requirements/uv.txt" in first
    assert f"PYTHON={python} PINS={machine} " in last
    assert f"--python {python} .venv" in first
    assert (
        "--compile-bytecode" in first
    )  # a container that is removed would lose what its processes compile
    assert last.endswith("tools/setup.sh")


@pytest.mark.parametrize("machine", MACHINES)
def test_the_programs_that_commands_start_are_installed(machine):
    (system,) = [value for value in values(machine, "RUN") if "apt-get install" in value]
    assert {"default-jre-headless", "poppler-utils", "g++"} <= set(shlex.split(system))


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_runs_as_root_once_the_system_is_there(machine):
    kinds = [kind for kind, _ in instructions(machine)]
    assert values(machine, "USER") == ["agent"]
    assert kinds.index("USER") < kinds.index("COPY")
    assert not any(
        "apt-get" in value for kind, value in instructions(machine)[kinds.index("USER") :]
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_machine_makes_stays_out_of_the_image(machine):
    ignored = (ROOT / "docker" / f"Dockerfile.{machine}.dockerignore").read_text().split()
    lines = (ROOT / ".gitignore").read_text().splitlines()
    made = [line.strip("/*") for line in lines if line[0] != "#" and line != "*.pyc"]
    kept = [name for name in made if not any(name in line for line in ignored)]
    assert kept == []
    assert ".git" in ignored
