"""A killed vLLM engine or server ends the run, with one error and nothing left behind."""

from __future__ import annotations

import pytest

from tests.e2e.deaths import VICTIMS

RUNS = {"engine": "asynchronous", "server": "ranks"}
ERROR = {"engine": "the vLLM engine of vLLMHttpServer", "server": "vLLMHttpServer vllm_server_"}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_part_of_the_rollout_ends_the_run(runs, victim):
    death = runs.result(RUNS[victim]).death
    assert death.code == 1
    errors = [line for line in death.said.splitlines() if line.startswith("docagent-rl: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"docagent-rl: {ERROR[victim]}")
    # nothing of Hydra's or Python's comes after it
    assert "Error executing job" not in death.said
    assert "Traceback" not in death.said[death.said.index(errors[0]) :]
    assert death.failure
    assert death.left == ()
