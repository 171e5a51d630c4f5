import math

import pytest
from rich.console import Console

from docagent_rl.console.numbers import (
    duration,
    is_step,
    is_validation,
    step_line,
    validation_comparison,
    weakest_stage,
)

STEP = {
    "docagent/reward/total": 0.41,
    "docagent/outcome/accuracy_of_judged": 0.375,
    "docagent/funnel/sought": 1.0,
    "docagent/funnel/found": 0.8125,
    "docagent/funnel/shown": 0.25,
    "docagent/funnel/looked": 0.25,
    "docagent/funnel/right": 0.1875,
    "docagent/turns": 2.6875,
    "docagent/trajectories/asked": 16.0,
    "docagent/trajectories/masked": 1.0,
    "actor/kl_loss": 0.0125,
    "actor/ppo_kl": 7.0,
    "rollout_corr/kl": 2.79e-7,
    "perf/total_num_tokens": 7995.0,
    "timing_s/step": 20.0,
    "training/global_step": 12.0,
}
VALIDATION = {
    "val-core/synthetic/reward/mean@1": 0.132,
    "val-aux/docagent/outcome/accuracy_of_judged": 0.1,
    "val-aux/docagent/funnel/found": 0.4,
    "val-aux/docagent/turns": 2.0,
    "val-aux/docagent/masked_trajectories": 0.0,
}


def drawn(table):
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines()]


def test_a_step_is_one_line():
    assert step_line(12, 200, STEP, 3 * 3600.0) == (
        "step 12/200  reward 0.410  right 38%  most lost at shown (81% to 25%)  turns 2.7  "
        "masked 1/16  KL 0.0125  server-trainer 2.8e-07  400 tokens/s  20.0 s  3 h 0 min left"
    )


def test_what_a_run_lacks_is_left_out():
    assert step_line(1, None, {"critic/score/mean": 0.5}) == "step 1  reward 0.500"
    assert step_line(1, 2, {"docagent/reward/total": math.nan}) == "step 1/2"


def test_a_step_of_fine_tuning_has_its_loss():
    numbers = {
        "train/loss": 2.5,
        "train/grad_norm": 1.25,
        "train/lr": 1e-5,
        "train/global_tokens": 19445,
    }
    assert is_step(numbers)
    line = "step 3/8  loss 2.5000  gradient 1.25  lr 1.00e-05  19,445 tokens  40 s left"
    assert step_line(3, 8, numbers, 40.0) == line


def test_numbers_are_known_by_their_names():
    assert is_step(STEP)
    assert not is_validation(STEP)
    assert is_validation(VALIDATION)
    assert not is_step(VALIDATION)
    assert is_validation({"val/loss": 1.0})


def test_the_weakest_stage_is_that_of_the_largest_loss():
    funnel = {"f/sought": 0.5, "f/found": 0.4, "f/kept": 0.4, "f/right": 0.6}
    assert weakest_stage(funnel, "f/") == "most lost at sought (100% to 50%)"
    assert weakest_stage(funnel | {"f/found": -0.0}, "f/") == "most lost at sought (100% to 50%)"
    assert weakest_stage({"f/sought": 1.0}, "f/") is None
    assert weakest_stage({}, "f/") is None


def test_a_validation_stands_beside_the_one_before():
    later = VALIDATION | {
        "val-core/synthetic/reward/mean@1": 0.1,
        "val-aux/docagent/outcome/accuracy_of_judged": 0.25,
        "val-aux/docagent/invalid_action_rate": 0.5,
    }
    head, *rows = drawn(validation_comparison(8, later, (4, VALIDATION)))
    assert head == ["validation", "at", "step", "8", "now", "step", "4", "change"]
    assert rows[0] == ["synthetic/reward", "0.100", "0.132", "-0.032"]
    assert rows[1] == ["right", "25%", "10%", "+15%"]
    assert ["invalid", "actions", "50%"] in rows
    assert rows[-1] == ["masked", "0", "0", "+0"]


def test_the_first_validation_stands_alone():
    head, first, *_ = drawn(validation_comparison(0, VALIDATION))
    assert head[-1] == "now"
    assert first == ["synthetic/reward", "0.132"]
    assert drawn(validation_comparison(4, {"val/loss": 3.0351}))[1] == ["loss", "3.0351"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.4, "4 s"), (89, "89 s"), (600, "10 min"), (12_000, "3 h 20 min"), (187_200, "2 d 4 h")],
)
def test_times_are_for_people(seconds, text):
    assert duration(seconds) == text
