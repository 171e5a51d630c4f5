"""Each check passes at its tiny size on the processor, and fails where what it checks is wrong."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest

from tests.tools.gpu_check.faults import AFTER, BEFORE, FAULTS, MACHINE
from tools.gpu_check.check import CheckError, Outcome
from tools.gpu_check.parts.recipe import BOUNDS, apart, check_apart
from tools.gpu_check.registry import CHECKS, find
from tools.gpu_check.runner import environment, run_one

NAMES = [f"{check}: {fault.__name__}" for check, faults in FAULTS.items() for fault in faults]
ALLOWED = ("CheckError", "TypeError")
"""A model that gets bytes for pictures may refuse them itself."""
TIME_S = 600


@pytest.fixture(scope="module")
def said(tmp_path_factory, warm_python) -> dict[str, str | None]:
    folder = tmp_path_factory.mktemp("faults")
    command = [warm_python, "-m", "tests.tools.gpu_check.faults", str(folder)]
    own = environment(MACHINE, folder)
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow(first=True)
def test_checks_pass_and_every_fault_is_seen(said):
    assert [said[name] for name in (*BEFORE, *AFTER)] == [None] * len((*BEFORE, *AFTER))
    assert [name for name in NAMES if not (said[name] or "").startswith(ALLOWED)] == []


@pytest.mark.slow(first=True)
@pytest.mark.usefixtures("warm_processes")
def test_the_check_of_models_passes_in_a_process_of_its_own(tmp_path):
    assert {check.name for check in CHECKS} == {*BEFORE, *AFTER, "models", "recipe"}
    found = run_one(find("models"), MACHINE, tmp_path, TIME_S)
    assert found.outcome is Outcome.PASS, found.log
    assert found.device == "cpu"


def played(*gaps: float) -> list:
    """A trajectory of one turn whose trainer differs by these gaps."""
    numbers = {"token_ids": [5] * len(gaps), "log_probs": [-1.0] * len(gaps)}
    turn = SimpleNamespace(row=0, **numbers, trainer_log_probs=[-1.0 + gap for gap in gaps])
    return [SimpleNamespace(turns=[turn])]


@pytest.mark.parametrize("device", BOUNDS)
def test_server_and_trainer_may_round_and_not_drift(device):
    bound = BOUNDS[device]
    found = apart(played(bound.mean / 2, -bound.mean / 2))
    check_apart("a run", found, bound)
    assert found["mean"] == pytest.approx(bound.mean / 2)
    for gaps in ([2 * bound.mean] * 9, [2 * bound.most, *[0.0] * 100_000]):
        with pytest.raises(CheckError):
            check_apart("a run", apart(played(*gaps)), bound)


def test_tokens_without_both_numbers_are_no_agreement():
    (trajectory,) = played(0.0, 0.0)
    trajectory.turns[0].trainer_log_probs.pop()
    for trajectories in ([trajectory], [], played(float("nan"))):
        with pytest.raises(CheckError):
            apart(trajectories)
