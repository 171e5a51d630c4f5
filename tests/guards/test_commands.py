"""Commands print one clear message for an error, do nothing twice, and give an answer with the
pages that it rests on.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.checks.rates import RateName
from docagent_rl.cli import main
from docagent_rl.commands.eval import eval_command
from docagent_rl.commands.ingest import check_command
from docagent_rl.commands.recipes import app as recipes
from docagent_rl.commands.rescore import rescore_command
from docagent_rl.rollout.trajectory import read_trajectories
from tests.commands.conftest import asked_about, called, on_cpu
from tests.documents.here import files_of
from tests.lab.rescoring.stage import stored_run
from tools.gpu_check.check import Machine, passed
from tools.gpu_check.registry import find
from tools.gpu_check.report import as_json

VRAG = "vrag_rl_qwen2_5_vl_7b"
ESCAPE = "\x1b[2J[/b]"


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command line in this process; return its status and what it printed to output and
    errors.
    """

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["docagent-rl", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    monkeypatch.setenv("COLUMNS", "200")
    return call


@pytest.fixture(scope="module")
def run(world, tmp_path_factory):
    """Return a run of VRAG-RL in the form in which the trainer leaves it."""
    return stored_run(world, tmp_path_factory.mktemp("stored") / "run", "vrag_rl", questions=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("view", "nowhere"),
        ("check", "nowhere"),
        ("recipes", "show", "nothing"),
        ("ingest", "gone", "--store", "s"),
    ],
)
def test_bad_input_is_one_line_with_status_2_and_no_traceback(
    command, arguments, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status, _, told = command(*arguments)
    assert status == 2
    assert "Traceback" not in told
    assert told.count("docagent-rl: ") == 1
    assert any(name in told for name in ("nowhere", "nothing", "gone"))


def test_nothing_that_a_command_prints_acts_on_the_terminal(command, tmp_path):
    row = {"doc_id": "a", "question_id": "q", "question": f"What {ESCAPE}?", "answers": "b"}
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    status, printed, told = command("data", "show", tmp_path / "q.jsonl")
    assert (status, told) == (0, "")
    assert "\x1b" not in printed
    assert r"\x1b[2J[/b]" in printed
    assert "\x1b" not in command("view", tmp_path / f"{ESCAPE.replace('/', '')}.jsonl")[2]


def test_a_command_that_is_none_is_refused_with_the_nearest(command):
    status, _, told = command("ingets")
    assert status == 2
    assert "ingest" in told


def test_a_recipe_that_is_none_is_named_with_the_nearest():
    with pytest.raises(UserError, match=rf"did you mean {VRAG}"):
        called(recipes, "show", "vrag_rl_qwen2_5_7b")


def test_help_loads_no_model_library(tmp_path):
    code = "import sys; from docagent_rl.cli import app; app(['--help'], standalone_mode=False)\n"
    code += (
        "heavy = {'torch', 'verl', 'transformers', 'ray', 'vllm'} & set(sys.modules); "
        "sys.exit(len(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=tmp_path, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_check_refuses_a_folder_that_is_nothing_it_knows(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        called(check_command, tmp_path)


def test_rescoring_by_nothing_new_changes_nothing(run, tmp_path):
    called(rescore_command, run, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "rescore.json").read_text())
    assert all(term["changed"] == 0 for term in found["terms"])
    assert found["credit"]["correlation"] == pytest.approx(1.0)
    old, new = (
        list(read_trajectories(each / "trajectories" / "1.jsonl"))
        for each in (run, tmp_path / "out")
    )
    assert [(each.uid, each.number, each.reward) for each in old] == [
        (each.uid, each.number, each.reward) for each in new
    ]


def test_rescoring_leaves_files_of_others_alone(run, tmp_path):
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "trajectories" / "1.jsonl").write_text("mine")
    before = files_of(tmp_path)
    with pytest.raises(UserError, match=str(tmp_path)):
        called(rescore_command, run, "--out", tmp_path)
    assert files_of(tmp_path) == before


def test_an_evaluation_counts_what_could_not_be_played_and_is_not_played_twice(world, tmp_path):
    samples = asked_about(world, tmp_path, count=3)
    given = [
        VRAG,
        "--data",
        tmp_path / "questions.jsonl",
        "--out",
        tmp_path / "run",
        "--agent",
        "random",
    ]
    called(eval_command, *given, *on_cpu(world))
    first = files_of(tmp_path / "run")["trajectories.jsonl"]
    called(eval_command, *given, *on_cpu(world))
    assert files_of(tmp_path / "run")["trajectories.jsonl"] == first
    played = list(read_trajectories(tmp_path / "run" / "trajectories.jsonl"))
    assert [each.uid for each in played] == [sample.question_id for sample in samples]
    with pytest.raises(UserError, match="run"):
        called(eval_command, *given, *on_cpu(world, "docagent.env.max_turns=2"))


def test_an_error_of_a_service_is_told_without_a_traceback(monkeypatch, capsys):
    def fail():
        raise InfrastructureError("the judge at http://host does not answer")

    with pytest.raises(SystemExit) as ended:
        main(fail)
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "the judge at http://host does not answer" in told
    assert "Traceback" not in told


def test_what_a_gpu_check_measured_replaces_what_was_computed(command, tmp_path):
    file = tmp_path / "gpu-check.json"
    rates = {RateName.SYNC: 2e9, RateName.DECODING: 1.2e12}
    machine = Machine("NVIDIA H200", 139.7, vllm=True)
    result = replace(passed("", rates=rates), device="cuda")
    file.write_text(as_json(machine, [(find("serving"), result)]))
    budget = ("recipes", "budget", VRAG, "--time", "--gpu-memory", "h200")
    _, plain, _ = command(*budget)
    status, out, _ = command(*budget, "--measured", file)
    assert status == 0
    # 4.8e12 bytes per second is the card's peak
    assert "4.8e+12 x 0.6)" in plain
    assert "4.8e+12 x 0.25)" in out
    assert "bytes / 2e+09 per second" in out
    assert out.count("measured on NVIDIA H200") == 2
    file.write_text("{}")
    status, _, error = command(*budget, "--measured", file)
    assert status == 2
    assert "not a report" in error
