"""A killed vLLM engine ends the run with one error and nothing left behind; `tests/watch` covers
other deaths.
"""


def test_a_killed_engine_ends_the_run(runs):
    death = runs.result("asynchronous").death
    assert death.code == 1
    errors = [line for line in death.said.splitlines() if line.startswith("docagent-rl: ")]
    assert len(errors) == 1
    assert errors[0].startswith("docagent-rl: the vLLM engine of vLLMHttpServer")
    # nothing of Hydra's or Python's comes after it
    assert "Error executing job" not in death.said
    assert "Traceback" not in death.said[death.said.index(errors[0]) :]
    assert death.failure
    assert death.left == ()
