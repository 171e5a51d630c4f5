from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("packing")
    worker = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    worker |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "DIST_INIT_METHOD": f"file://{folder}/meeting"}
    worker |= {"VERL_PLATFORM": "cpu", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.training.workers.packing_engine", str(folder)],
        env={**os.environ, **worker},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_rows_share_micro_batches(report):
    assert report["micro_batches"]["rows"] == 4
    assert report["micro_batches"]["packed"] == report["micro_batches"]["fused"] == 2


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "critic"])
def test_the_update_does_not_depend_on_how_rows_are_packed(report, mode):
    assert report["gradients"][mode]["packed"] < 1e-5


@pytest.mark.parametrize("field", ["log_probs", "entropy", "values"])
def test_what_is_inferred_is_in_the_order_of_the_rows(report, field):
    assert report["inferred"][field]["packed"] < 1e-5


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_fused_kernels_update_as_logits_do(report, mode):
    assert report["gradients"][mode]["fused"] < 1e-5
    assert report["inferred"]["log_probs"]["fused"] < 1e-5
