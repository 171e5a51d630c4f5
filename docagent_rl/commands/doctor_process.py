"""The processes that the doctor starts, one for each kind.

`python -m docagent_rl.commands.doctor_process KIND ANSWER` writes what is registered there to the
file ANSWER. vLLM loads a tiny model from the lab, which the checks themselves must not import.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from docagent_rl.checks.doctor import (
    TIMEOUT_S,
    Probe,
    answer_or_failure,
    ask_process,
)
from docagent_rl.training.patching import ProcessKind
from docagent_rl.training.registrations import (
    prepare_environment,
    registered,
    registered_in_ray_worker,
    registered_in_vllm_worker,
)

_MODULE = "docagent_rl.commands.doctor_process"


def examine(kind: ProcessKind, timeout_s: float = TIMEOUT_S) -> Probe:
    """Return the answer of a process of a kind; it is ended after `timeout_s` seconds."""
    return ask_process([sys.executable, "-m", _MODULE, kind.name], timeout_s)


def _answer(kind: ProcessKind) -> Probe:
    if kind is ProcessKind.DRIVER:
        return answer_or_failure(registered)
    if kind is ProcessKind.RAY:
        return answer_or_failure(registered_in_ray_worker)

    from docagent_rl.lab.tiny.model import build_tiny_model  # imports transformers

    with tempfile.TemporaryDirectory(prefix="docagent-doctor-") as folder:
        model = Path(folder) / "model"
        build_tiny_model(model, seed=0)
        return answer_or_failure(lambda: registered_in_vllm_worker(model))


def write_answer(kind: str, file: str) -> None:
    """Write to a file what is registered in a process of a kind."""
    prepare_environment()
    Path(file).write_text(json.dumps(asdict(_answer(ProcessKind[kind]))), encoding="utf-8")


if __name__ == "__main__":
    write_answer(*sys.argv[1:])
