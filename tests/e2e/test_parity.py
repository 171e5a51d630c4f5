"""verl's own estimators give bit for bit the same advantages under our trainer modes as under
verl's.
"""

import json
import subprocess

import pytest

from tests.e2e.parity import ESTIMATORS


@pytest.fixture(scope="module")
def report(warm_python):
    command = [warm_python, "-m", "tests.e2e.parity"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mode", ["sync", "colocate_async", "separate_async"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_equal_to_the_bit(report, estimator, mode):
    found = report[f"{estimator}/{mode}"]
    assert found["equal"]
    assert found["spread"] > 0
