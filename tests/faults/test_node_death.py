"""Two Ray nodes on this machine, a trainer over both, of which one dies: in the long form alone."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest

from docagent_rl.training.warm import WarmPython
from tests.cluster import Cluster
from tests.e2e.conftest import Run, add_model, kill
from tests.faults.campaign import Form

LIMIT_S = 900
OVERRIDES = (
    "trainer.nnodes=2",
    "trainer.n_gpus_per_node=1",
    "trainer.total_training_steps=50",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=1",
)


@pytest.mark.faults
def test_a_node_that_dies_ends_the_run_with_one_error(request, tmp_path):
    if request.config.getoption("--faults") is not Form.LONG:
        pytest.skip("takes 15 GB of memory: --faults=long")
    workspace = tmp_path / "workspace"
    add_model(workspace, "vrag_rl")
    with (
        WarmPython() as warm,  # whose forks share most of their memory
        tempfile.TemporaryDirectory(prefix="n", ignore_cleanup_errors=True) as short,
        Cluster(Path(short), warm.executable) as cluster,
    ):
        other = cluster.add()
        run = Run(tmp_path / "run", workspace, OVERRIDES, warm.executable, variables=cluster.environment)
        process, deadline = run.start(), time.monotonic() + LIMIT_S
        try:
            while not (run.run_dir / "checkpoints" / "global_step_1" / "manifest.json").is_file():
                assert process.poll() is None, run.log.read_text(errors="replace")[-6000:]
                assert time.monotonic() < deadline, run.log.read_text(errors="replace")[-6000:]
                time.sleep(0.5)
            cluster.kill(other)
            code = process.wait(LIMIT_S)
        finally:
            kill(process)
    assert code == 1
    said = run.log.read_text(errors="replace").splitlines()
    assert sum(line.startswith("docagent-rl: ") for line in said) == 1
