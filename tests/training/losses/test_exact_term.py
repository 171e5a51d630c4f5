from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("engine_run.py")
WORKERS = 2
HEADS = ["rows tied", "rows untied", "packed tied", "packed untied"]
"""Micro-batches of two rows, or filled with rows and with verl's fused kernels."""


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict:
    """verl's engines, FSDP2 over two processes: an update at the reference and one away from it."""
    folder = tmp_path_factory.mktemp("engine")
    # the processes meet in a file: a free port may be taken before they open it
    shared = {"WORLD_SIZE": str(WORKERS), "DIST_INIT_METHOD": f"file://{folder}/meeting"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
    errors, processes = [folder / f"errors{rank}.txt" for rank in range(WORKERS)], []
    output = folder / "output.txt"
    for rank in range(WORKERS):
        with errors[rank].open("w") as stderr, (output if rank == 0 else folder / "none").open("w") as stdout:
            command = [sys.executable, str(SCRIPT), str(folder)]
            environment = {**os.environ, **shared, "RANK": str(rank)}
            processes.append(subprocess.Popen(command, stdout=stdout, stderr=stderr, env=environment))
    codes = wait(processes)
    assert codes == [0] * WORKERS, "".join(path.read_text()[-3000:] for path in errors)
    return json.loads(output.read_text().splitlines()[-1])


def wait(processes: list[subprocess.Popen], timeout: float = 600) -> list[int | None]:
    """Until all have ended; a failure or the deadline ends the others, which would wait for ever."""
    deadline = time.monotonic() + timeout
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    codes = [process.poll() for process in processes]
    for process in processes:
        process.kill()
        process.wait()
    return codes


@pytest.mark.parametrize("head", HEADS)
def test_nothing_is_pulled_at_the_reference(report, head):
    found = report[head]["before"]
    for name in ("kl_observation", "kl_visual", "kl_generated", "observation_drift_l2", "kl_clamped"):
        assert found[name] == pytest.approx(0, abs=1e-6), name
    assert found["observation_drift_cosine"] == pytest.approx(1)


@pytest.mark.parametrize("head", HEADS)
def test_value_and_gradients_equal_dense_ones(report, head):
    found = report[head]
    assert found["kl"] > 0.1
    assert found["after"]["kl_observation"] == pytest.approx(found["kl"], rel=1e-4)
    assert found["after"]["kl_visual"] == pytest.approx(found["kl"], rel=1e-4)
    assert found["after"]["loss"] == pytest.approx(found["loss"], rel=1e-4)
    assert 0.1 < found["after"]["observation_drift_l2"] < 2
    assert found["errors"].keys() == found["largest"].keys()
    assert ("lm_head.weight" in found["errors"]) == head.endswith("untied")
    for name, error in found["errors"].items():
        assert error < 1e-4 * found["largest"][name] + 1e-6, name


@pytest.mark.parametrize("head", HEADS)
def test_states_of_the_reference_are_let_go(report, head):
    for step in ("before", "after"):
        # eight rows over two workers
        assert report[head][step]["rows_kept"] == 4
        assert report[head][step]["rows_left"] == 0
