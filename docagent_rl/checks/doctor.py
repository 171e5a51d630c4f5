"""Is this machine fit for training: versions, registrations in every kind of process, system tools."""

from __future__ import annotations

import enum
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from docagent_rl.checks.bytecode import check_bytecode
from docagent_rl.checks.gpu import Finding, ask_driver, check_attention, check_driver
from docagent_rl.checks.versions import VersionCheck
from docagent_rl.training.patching import PatchState
from docagent_rl.training.registrations import Registered

GIB = 1024**3
SMALL_SHM_GIB = 2.0


class ProcessKind(enum.Enum):
    """The kinds of process in which verl runs our code."""

    DRIVER = "driver"
    RAY = "Ray worker"
    VLLM = "vLLM worker"


@dataclass(frozen=True)
class Probe:
    """What one process answered: its registrations, or why it could not tell."""

    registered: Registered | None = None
    error: str = ""
    remedy: str = "repair the error; the process's log has the whole of it"
    """What to do about the error."""


@dataclass(frozen=True)
class SystemCheck:
    """One property of the machine."""

    name: str
    value: str
    advice: str = ""
    """What to do, if anything."""
    blocks: bool = False
    """Whether training is impossible without it."""


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
    system: list[SystemCheck]

    @property
    def problems(self) -> list[Problem]:
        """What keeps training from working, in the order of the report."""
        found = [
            Problem("versions", f"{check.package} is {check.installed or 'missing'}", check.remedy)
            for check in self.versions
            if not check.matches
        ]
        for kind, probe in self.probes.items():
            found += find_problems(kind, probe)
        found += [
            Problem("machine", f"{check.name}: {check.value}", check.advice)
            for check in self.system
            if check.blocks
        ]
        return found

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

    where = kind.value
    if probe.registered is None:
        return [Problem(where, probe.error, probe.remedy)]
    found = probe.registered
    missing = [f"agent loop {AGENT_LOOP}"] if AGENT_LOOP not in found.agent_loops else []
    missing += [f"trainer mode {name}" for name in TRAINER_MODES if name not in found.trainer_modes]
    remedy = (
        "install docagent-rl in the environment of this process; do not set VERL_USE_EXTERNAL_PLUGINS=none"
    )
    problems = [Problem(where, f"{name} is not registered", remedy) for name in missing]
    if not any(engine.startswith("language_model/") for engine in found.engines):
        text = f"no training engine for the device {found.platform}"
        problems.append(
            Problem(where, text, "set VERL_PLATFORM to the platform of this machine (cpu, nvidia, ...)")
        )
    if not found.patches:
        problems.append(Problem(where, "no patch is installed", remedy))
    for name, state in found.patches.items():
        if state in (PatchState.VERSION_MISMATCH.value, PatchState.WAITING.value):
            problems.append(Problem(where, f"patch {name}: {state}", "install the supported versions"))
    return problems


def check_system() -> list[SystemCheck]:
    """Look at the tools and resources of this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    few = (
        "Ray waits for CPUs: set ray_kwargs.ray_init.num_cpus above the number of actors" if cores < 8 else ""
    )
    pdftoppm = shutil.which("pdftoppm")
    optional = "" if pdftoppm else "only for rendering with pdf2image: install poppler-utils"
    return [
        SystemCheck("CPUs", str(cores), few),
        _shared_memory(),
        SystemCheck("accelerator", _accelerators()),
        *_driver(),
        _found("attention", check_attention()),
        _found("packages", check_bytecode()),
        SystemCheck("pdftoppm", pdftoppm or "not found", optional),
    ]


def _shared_memory(path: Path = Path("/dev/shm")) -> SystemCheck:
    if not path.is_dir():
        return SystemCheck("free shared memory", f"no {path}", "weights travel through it: mount it")
    free = shutil.disk_usage(path).free / GIB
    advice = "weights and Ray's objects travel through it: mount it larger (docker run --shm-size)"
    return SystemCheck("free shared memory", f"{free:.1f} GiB", advice if free < SMALL_SHM_GIB else "")


def _driver() -> list[SystemCheck]:
    import torch

    from docagent_rl.training.platforms.detect import is_cpu_platform

    gpus = ask_driver()
    if gpus is None:
        return []
    usable = torch.cuda.is_available()
    return [_found("NVIDIA driver", check_driver(gpus, torch.version.cuda, usable, not is_cpu_platform()))]


def _found(name: str, finding: Finding) -> SystemCheck:
    return SystemCheck(name, finding.value, finding.advice, finding.blocks)


def _accelerators() -> str:
    import torch

    if not torch.cuda.is_available():
        return "none (platform cpu)"
    count = torch.cuda.device_count()
    return f"{count} x {torch.cuda.get_device_name(0)}"
