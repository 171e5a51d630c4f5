"""A killed vLLM engine or server ends the run within a minute, with one error and nothing left behind."""

from __future__ import annotations

import pytest

from tests.e2e.deaths import VICTIMS

ERROR = {"engine": "the vLLM engine of vLLMHttpServer", "server": "vLLMHttpServer vllm_server_0_0"}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_part_of_the_rollout_ends_the_run(runs, victim):
    death = runs.result("asynchronous").death if victim == "engine" else runs.result("death of server")
    assert death.code == 1
    # half a minute on an idle machine
    assert death.seconds < 120
    errors = [line for line in death.said.splitlines() if line.startswith("docagent-rl: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"docagent-rl: {ERROR[victim]}")
    assert " died" in errors[0]
    # nothing of Hydra's or Python's comes after it
    assert "the run goes on from its last checkpoint" in death.said[death.said.index(errors[0]) :]
    assert "Error executing job" not in death.said
    assert "Traceback" not in death.said[death.said.index(errors[0]) :]
    assert death.failure
    assert death.left == ()
