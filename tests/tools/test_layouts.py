"""Every family in every layout of rows, in float32, compared with one row at a time."""

import json
import subprocess

import pytest

from docagent_rl.models import families
from tools.gpu_check.layouts import Agreement
from tools.gpu_check.runner import environment
from tools.layouts import COLUMNS, CPU, MARK, UNFUSED, Found, in_a_process, row

FUSED = "packed together, fused"
EXACT = Agreement([1e-6, 2e-6], {"tower": 1.0, "language model": 1 - 1e-9}, {"tower": 1.0})


@pytest.mark.slow
@pytest.mark.parametrize("name", [family.name for family in families()])
def test_rows_have_the_numbers_of_one_row_at_a_time_in_every_layout(name, warm_python):
    found = in_a_process(name, warm_python)
    assert found.problems() == []
    assert list(found.layouts) == [way for way in COLUMNS if way != FUSED or name not in UNFUSED]
    seeing = next(family.vision for family in families() if family.name == name) is not None
    parts = {"tower", "language model"} if seeing else {"language model"}
    assert all(set(each.cosines) == parts for each in found.layouts.values())
    assert len(found.critic) == len(found.layouts["padded"].rows) == 4


@pytest.mark.parametrize(
    ("agreement", "words"),
    [
        (EXACT, None),
        (Agreement([1e-6, 2e-4], {}, {}), "row 2: a log-prob differs by 0.0002 nats"),
        (Agreement([float("nan")], {}, {}), "row 1: a log-prob differs by nan"),
        (Agreement([], {"tower": 0.9999}, {}), "tower: the cosine of the gradients is 0.999900"),
        (
            Agreement([], {}, {"language model": 1.01}),
            "language model: the norm of the gradient is 1.01",
        ),
    ],
)
def test_what_is_too_far_apart_is_named(agreement, words):
    problems = agreement.problems()
    assert len(problems) == (words is not None)
    assert all(problem.startswith(words) for problem in problems)


def test_a_value_that_is_too_far_apart_is_named():
    found = Found({"padded": EXACT}, [0.0, 0.1])
    assert found.problems() == ["critic, row 2: a value differs by 0.1, more than 0.0001"]


def test_a_row_of_the_table():
    ways = {way: EXACT for way in COLUMNS if way != FUSED}
    cells = row("gemma4", Found(ways, [1e-7, 3e-7])).split(" | ")
    assert cells[0] == "| `gemma4`"
    assert cells[1 + COLUMNS.index(FUSED)] == f"refused: {UNFUSED['gemma4']}"
    assert cells[1] == "2e-06, 1e-09"
    assert cells[-1] == "3e-07 |"


WITHOUT_PATCHES = f"""
import json, sys
from pathlib import Path
from tools.layouts import of_family
import verl.models.transformers.qwen3_5 as layers
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine
layers._call_accepts_kwarg = layers._call_accepts_kwarg.__wrapped__
FSDPEngine._build_model_optimizer = FSDPEngine._build_model_optimizer.__wrapped__
print({MARK!r} + json.dumps(of_family("qwen3_5", Path(sys.argv[1])).problems()))
"""


@pytest.mark.slow
def test_rows_of_qwen3_5_that_see_each_other_are_found(tmp_path, warm_python):
    """The rows are packed as verl packs them without the patches."""
    command = [warm_python, "-c", WITHOUT_PATCHES, tmp_path]
    own = environment(CPU, tmp_path)
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1].removeprefix(MARK))
    wrong = {problem.partition(":")[0] for problem in said}
    critic = {each for each in wrong if each.startswith("critic")}
    assert wrong - critic == {"packed together", FUSED, "dynamic micro-batches"}
    # rows that lie behind others in a pack
    assert critic
    assert not any("row 1" in problem for problem in said)
