import json

from docagent_rl.lab.rehearsal.meter import PartMemory
from docagent_rl.lab.rehearsal.report import GIB, Rehearsal

STEPS = [
    {"timing_s/gen": 30.0, "timing_s/update_actor": 10.0, "timing_s/step": 50.0},
    {
        "timing_s/gen": 20.0,
        "timing_s/update_actor": 60.0,
        "timing_s/step": 100.0,
        "docagent/time_share/generate": 0.3,
        "docagent/time_share/search": 0.6,
        "docagent/prefill_ratio": 1.04,
    },
]
FOUND = Rehearsal(
    "some_recipe", {"steps": 2, "share": 0.125}, 61.0, STEPS, {"driver": PartMemory(1, GIB, GIB)}
)


def test_each_step_has_a_column_and_what_is_unknown_is_left_out():
    text = FOUND.to_markdown()
    assert "| rollout | 30.0 | 20.0 |" in text
    assert "| prompt tokens computed, divided by new ones |  | 1.04 |" in text
    assert "values" not in text
    assert "| driver | 1 | 1.00 | 1.00 |" in text
    assert "steps 2, share 0.125. The start took 61 s." in text


def test_it_says_what_the_run_waited_for():
    found = FOUND.waits()
    assert "update of the policy (60%)" in found
    assert "most for searches (60% of their time)" in found
    assert Rehearsal("r", {}, 0.0, []).waits() == "No step was finished."


def test_all_numbers_are_kept():
    found = json.loads(FOUND.to_json())
    assert found["steps"] == STEPS
    assert found["memory"]["driver"]["processes"] == 1
