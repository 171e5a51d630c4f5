from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cpu_only")]
PROBE = Path(__file__).with_name("vllm_seed_probe.py")


@pytest.fixture(scope="module")
def report(tmp_path_factory, warm_python) -> dict:
    pytest.importorskip("vllm")
    command = [warm_python, str(PROBE), str(tmp_path_factory.mktemp("seeds") / "model")]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, check=False)
    reports = [line for line in done.stdout.splitlines() if line.startswith("REPORT ")]
    assert reports, done.stderr[-4000:]
    return json.loads(reports[0].removeprefix("REPORT "))


def test_upstream_still_ends_at_a_seeded_prompt_in_pieces(report):
    assert "CPU Generator does not use offset" in report["original_error"]


def test_pieces_of_the_prompt_do_not_change_what_a_seed_samples(report):
    assert report["pieces"] == report["whole"]
    assert len({tuple(tokens) for tokens in report["whole"]}) == 3
