"""The console of a run of the trainer, and the log with everything else."""

import re

import pytest

from tests.e2e.recipes import steps

pytestmark = pytest.mark.core

MOST_LINES = 30
"""Largest number of printed lines before the first step."""


@pytest.fixture(params=["unidoc_rl_qwen2_5_vl_7b"], scope="module")
def recipe(request):
    return request.param


@pytest.fixture(scope="module")
def run(runs, recipe):
    return runs.result(recipe)


@pytest.fixture(scope="module")
def lines(run):
    return run.said.splitlines()


def test_a_few_lines_come_before_the_first_step(lines, recipe):
    (first,) = [n for n, line in enumerate(lines) if line.startswith("step 1/")]
    assert first <= MOST_LINES, lines
    start = "\n".join(lines[:first])
    assert start.startswith("docagent-rl ")
    assert recipe in lines[0]
    for name in ("model", "data", "devices", "writes", "log"):
        assert re.search(rf"^  {name} ", start, re.MULTILINE)
    stages = "checks", "Ray", "trainer", "trainer's workers", "rollout servers", "agent workers"
    for stage in stages:
        assert re.search(rf"^  {stage}.* [\d.]+ s$", start, re.MULTILINE), stage
    assert "do not expect its reward to rise" in start


def test_a_step_is_one_line_of_what_matters(lines, recipe):
    total = steps(recipe)[-1]
    for step in steps(recipe):
        (line,) = [each for each in lines if each.startswith(f"step {step}/{total} ")]
        for part in ("reward ", "turns ", "masked 0/", "KL ", "server-trainer ", "tokens/s"):
            assert part in line
        assert ("left" in line) == (step < total)


def test_it_ends_with_what_to_type_next(lines, run):
    end = lines[lines.index("next:") + 1 :]
    assert [line.split()[1] for line in end] == ["view", "eval", "report"]
    assert end[0].endswith(f"view {run.run_dir}")


def test_all_else_is_in_the_log(run):
    assert "np.float64" not in run.said
    assert "'actor_rollout_ref': {'actor'" not in run.said
    # a busy Ray cuts lines where it read them while they were written
    cut = r"\n\x1b\[\d+m\(TaskRunner\w* pid=\d+\)\x1b\[0m "
    assert "'actor_rollout_ref': {'actor'" in re.sub(cut, "", run.logged)
    assert "step:1 - " in run.logged
    assert str(run.run_dir / "console.log") in run.said
