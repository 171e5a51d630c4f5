"""The line that a training run prints before slow imports begin."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from docagent_rl.base import first_line
from docagent_rl.base.first_line import recipe_of

PPO = ("python", "-m", "verl.trainer.main_ppo")
LINE = (Path(first_line.__file__).with_suffix(".pth")).read_text()


@pytest.mark.parametrize(
    ("arguments", "recipe"),
    [
        ([*PPO, "--config-name", "mine", "+profile=cpu"], "mine"),
        ([*PPO, "--config-name=mine"], "mine"),
        (["python", "-u", "-m", "verl.trainer.sft_trainer", "-cn", "mine"], "mine"),
        ([*PPO, "trainer.nnodes=2"], None),
        ([*PPO, "--config-name", "mine", "docagent.console=full"], None),
        ([*PPO, "--config-name", "mine", "--cfg", "job"], None),
        (["python", "-m", "verl.trainer.main_eval", "--config-name", "mine"], None),
        (["python", "-c", "verl.trainer.main_ppo", "--config-name", "mine"], None),
        (["python"], None),
    ],
)
def test_a_line_is_for_trainers_with_a_recipe(arguments, recipe):
    assert recipe_of(arguments) == recipe


def test_it_is_printed_once_and_by_the_first_rank(monkeypatch, capsys):
    monkeypatch.setattr(first_line, "_printed_at", None)
    monkeypatch.setattr(first_line, "_hold_warnings", lambda: None)
    monkeypatch.setenv("RANK", "1")
    first_line.print_first_line([*PPO, "--config-name", "mine"])
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("RANK", "0")
    for _ in range(2):
        first_line.print_first_line([*PPO, "--config-name", "mine"])
    (line,) = capsys.readouterr().out.splitlines()
    assert "mine" in line
    assert first_line.printed_at() is not None


def test_the_installed_file_is_one_line_of_code_that_costs_nothing_elsewhere():
    """`site` executes each line of such a file that begins with `import`."""
    (line,) = LINE.splitlines()
    assert line.startswith("import ")
    code = f"{line}; print(sorted(name for name in sys.modules if name.startswith('docagent')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("released", ["", "release_warnings(); print('open', file=sys.stderr); "])
def test_warnings_of_imports_wait_for_the_log(released):
    """A run that ends before it has a log shows these warnings at its end."""
    code = (
        "import sys, warnings; from docagent_rl.base.first_line import *; "
        "print_first_line(['p', '-m', 'verl.trainer.main_ppo', '-cn', 'mine']); "
        "warnings.warn('no engine'); print('imported', file=sys.stderr); "
        f"{released}warnings.warn('later'); print('end', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = [
        word
        for word in done.stderr.split()
        if word in ("engine", "imported", "open", "later", "end")
    ]
    late = ["imported", "end", "engine", "later"]
    assert found == (["imported", "engine", "open", "later", "end"] if released else late)


@pytest.mark.slow
def test_nothing_heavy_is_imported_for_it():
    before = "import sys; sys.orig_argv = ['p', '-m', 'verl.trainer.main_ppo', '-cn', 'mine']; "
    code = f"{before}{LINE.strip()}; print(any(m in sys.modules for m in ('torch', 'rich', 'ray')))"
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, heavy = done.stdout.splitlines()
    assert "mine" in first
    assert heavy == "False"
    assert time.monotonic() - began < 60
