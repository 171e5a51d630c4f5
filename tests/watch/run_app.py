"""A run in small: a driver that waits for a trainer, which waits for ever for an actor with a child process.

python run_app.py FAULT FOLDER
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import ray
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from docagent_rl.errors import UserError
from docagent_rl.watch import run
from docagent_rl.watch.run import RunWatch


@ray.remote(num_cpus=0)
class AgentLoopWorker:
    """Starts a process that outlives it, as vLLM's engine does."""

    def begin(self) -> tuple[int, int]:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        return os.getpid(), child.pid


@ray.remote
class TaskRunner:
    def run(self, folder: str, fault: str) -> None:
        if fault == "error":
            raise ValueError("a bug of the trainer")
        if fault == "settings":
            raise UserError("node 10.0.0.2: docagent.store=/w/store is not there\n  mount it")
        worker = AgentLoopWorker.remote()
        pids = ray.get(worker.begin.remote())
        Path(folder, "pids.json").write_text(json.dumps([*pids, os.getpid()]))
        if fault == "fine":
            return
        time.sleep(600)


def main(fault: str, folder: str) -> None:
    """What Hydra does around verl's main function."""
    run.GRACE_S = 1.0
    config = OmegaConf.create(
        {
            "docagent": {
                "system": "vrag_rl",
                "workspace": folder,
                "run_dir": folder,
                "store": folder,
                "retriever": {"kind": "bm25", "index": folder},
                "watch": {"interval_s": 0.5, "pending_s": 3},
            }
        }
    )
    watch, job = RunWatch(), JobReturn()
    watch.on_job_start(config)
    try:
        cpus = 0 if fault == "places" else 1
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
        )
        runner = TaskRunner.remote()
        job.return_value = ray.get(runner.run.remote(folder, fault))
        job.status = JobStatus.COMPLETED
    except Exception as error:  # as Hydra takes whatever a job raises
        job.return_value, job.status = error, JobStatus.FAILED
    watch.on_job_end(config, job_return=job)
    job.return_value  # raises what Hydra would raise  # noqa: B018


if __name__ == "__main__":
    main(*sys.argv[1:])
