"""Actor, critic and reference in verl's engines: packed rows through flash attention, on the processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TIMEOUT_S = 600
ACTORS = [
    "whole batch",
    "two rows a pack",
    "one row a pack",
    "checkpointing",
    "fused kernels",
    "determined",
]


def run(module: str, folder: Path, ranks: int) -> dict:
    """What rank 0 prints last."""
    common = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    common |= {"MASTER_PORT": "0", "DIST_INIT_METHOD": f"file://{folder}/meeting"}
    common |= {"VERL_PLATFORM": "cpu", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    processes = []
    for rank in range(ranks):
        with (folder / f"{rank}.out").open("w") as out, (folder / f"{rank}.err").open("w") as err:
            command = [sys.executable, "-m", f"tests.training.attention.{module}", str(folder)]
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            environment = {**os.environ, **common, **own}
            processes.append(subprocess.Popen(command, stdout=out, stderr=err, env=environment))
    try:
        codes = [process.wait(TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes == [0] * ranks, (folder / "0.err").read_text()[-3000:]
    return json.loads((folder / "0.out").read_text().splitlines()[-1])


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict:
    return run("packed_engine", tmp_path_factory.mktemp("packed"), ranks=1)


@pytest.mark.parametrize("variant", [*ACTORS, "critic"])
def test_packed_rows_give_the_numbers_and_gradients_of_padded_rows(report, variant):
    found = report[variant]
    assert found["names"]
    assert found["values"] < 1e-5
    assert found["error"] < 1e-5
    assert found["norm"] > 0.1
    assert min(report["spread"].values()) > 0.1


def test_offloaded_reference_gives_the_numbers_of_the_actor(report):
    assert report["reference"]["values"] < 1e-5


def test_two_ranks_that_share_each_row_give_the_numbers_of_padded_rows(tmp_path):
    """Ulysses; each rank's loss counts half of what two data-parallel ranks count."""
    found = run("ulysses_engine", tmp_path, ranks=2)
    assert found["values"] < 1e-5 < found["spread"]
    assert found["scale"] == pytest.approx(0.5, rel=1e-5)
    assert found["error"] < 1e-5
