"""A small run: a driver waits for a trainer, which waits forever for an actor with a child process.

python run_app.py FOLDER
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import ray
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from docagent_rl.watch import run
from docagent_rl.watch.processes import Descendants
from docagent_rl.watch.run import RunWatch


def write(file: Path, pids: list[int]) -> None:
    """Write a file completely or not at all."""
    file.with_suffix(".part").write_text(json.dumps(pids))
    file.with_suffix(".part").rename(file)


class TellingFamily(Descendants):
    """A family of processes that records which processes it has seen."""

    def look(self) -> None:
        super().look()
        write(Path(sys.argv[1], "seen"), [process.pid for process in self._seen])


@ray.remote(num_cpus=0)
class AgentLoopWorker:
    """An actor that starts a process that outlives it, as vLLM's engine does."""

    def begin(self) -> tuple[int, int]:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        return os.getpid(), child.pid


@ray.remote
class TaskRunner:
    def run(self, folder: str) -> None:
        worker = AgentLoopWorker.remote()
        pids = ray.get(worker.begin.remote())
        write(Path(folder, "pids"), [*pids, os.getpid()])
        time.sleep(600)


def main(folder: str) -> None:
    """Act as Hydra does around verl's main function."""
    run.GRACE_S = 1.0
    run.Descendants = TellingFamily
    section = {
        "system": "vrag_rl",
        "retriever": {"kind": "bm25", "index": folder},
        "watch": {"interval_s": 0.5},
        **dict.fromkeys(("workspace", "run_dir", "store"), folder),
    }
    config = OmegaConf.create({"docagent": section, "trainer": {"default_local_dir": folder}})
    watch, job = RunWatch(), JobReturn()
    watch.on_job_start(config)
    try:
        quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
        ray.init(address="local", num_cpus=1, **quiet)
        job.return_value = ray.get(TaskRunner.remote().run.remote(folder))
        job.status = JobStatus.COMPLETED
    except Exception as error:  # as Hydra takes whatever a job raises
        job.return_value, job.status = error, JobStatus.FAILED
    watch.on_job_end(config, job_return=job)
    job.return_value  # raises what Hydra would raise  # noqa: B018


if __name__ == "__main__":
    main(*sys.argv[1:])
