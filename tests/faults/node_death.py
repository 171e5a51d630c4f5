"""Two Ray nodes on this machine, a trainer over both, and one of them dies.

Run by itself, in 15 GB of memory: `python -m tests.faults.node_death FOLDER WORKSPACE`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from docagent_rl.training.warm import WarmPython
from tests.cluster import Cluster
from tests.e2e.conftest import Run, kill

LIMIT_S = 240
START_S = 900
OVERRIDES = (
    "trainer.nnodes=2",
    "trainer.n_gpus_per_node=1",
    "trainer.total_training_steps=50",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=1",
)


def play(folder: Path, workspace: Path) -> tuple[int, float, str]:
    """Kill the second node behind a checkpoint: status of the driver, seconds it took, what it said."""
    with (
        WarmPython() as warm,  # whose forks share most of their memory
        tempfile.TemporaryDirectory(prefix="n", ignore_cleanup_errors=True) as short,
        Cluster(Path(short), warm.executable) as cluster,
    ):
        other = cluster.add()
        run = Run(folder, workspace, OVERRIDES, warm.executable, variables=cluster.environment)
        process, deadline = run.start(), time.monotonic() + START_S
        try:
            while not (run.run_dir / "checkpoints" / "global_step_1" / "manifest.json").is_file():
                assert process.poll() is None, run.log.read_text(errors="replace")[-6000:]
                assert time.monotonic() < deadline, run.log.read_text(errors="replace")[-6000:]
                time.sleep(0.5)
            began = time.monotonic()
            cluster.kill(other)
            code = process.wait(LIMIT_S)
            return code, time.monotonic() - began, run.log.read_text(errors="replace")
        finally:
            kill(process)


def judge(folder: Path, workspace: Path) -> int:
    """Play, and say what came of it; 0 if all is as it should be."""
    code, seconds, said = play(folder, workspace)
    errors = [line for line in said.splitlines() if line.startswith("docagent-rl: ")]
    print(f"status {code} after {seconds:.0f} s", *errors, sep="\n")
    return int(code != 1 or len(errors) != 1 or seconds > 60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("workspace", type=Path)
    options = parser.parse_args()
    return judge(options.folder.resolve(), options.workspace.resolve())


if __name__ == "__main__":
    sys.exit(main())
