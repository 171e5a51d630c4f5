"""A small run that is asked to end: python stop_app.py FOLDER obeys|finishes|hangs."""

import sys
import time
from pathlib import Path

import ray
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from docagent_rl.checkpoints.manifest import write_tracker
from docagent_rl.watch.run import RunWatch
from docagent_rl.watch.stopping import StopRequest

STOP_S = 2.0


@ray.remote
class TaskRunner:
    def run(self, folder: str, kind: str) -> None:
        """Train until the run is asked to end; make a last step if it `finishes`, or continue
        forever if it `hangs`.
        """
        request = StopRequest(STOP_S)
        write_tracker(Path(folder), 1)
        Path(folder, "training").touch()
        while kind == "hangs" or not request.asked:
            time.sleep(0.1)
        if kind == "obeys":
            while not request.overdue:
                time.sleep(0.1)
            write_tracker(Path(folder), 2)
            request.confirm()


def main(folder: str, kind: str) -> None:
    """Act as Hydra does around verl's main function."""
    section = {
        "system": "vrag_rl",
        "retriever": {"kind": "bm25", "index": folder},
        "watch": {"stop_s": STOP_S},
        **dict.fromkeys(("workspace", "run_dir", "store"), folder),
    }
    config = OmegaConf.create({"docagent": section, "trainer": {"default_local_dir": folder}})
    watch, job = RunWatch(), JobReturn()
    watch.on_job_start(config)
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    ray.init(address="local", num_cpus=1, **quiet)
    job.return_value = ray.get(TaskRunner.remote().run.remote(folder, kind))
    job.status = JobStatus.COMPLETED
    watch.on_job_end(config, job_return=job)


if __name__ == "__main__":
    main(*sys.argv[1:])
