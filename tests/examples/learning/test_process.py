from __future__ import annotations

import pytest

from docagent_rl.errors import InfrastructureError
from learning.process import Trainer
from tests.processes import ends


def module(folder, text):
    (folder / "played_trainer.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


def test_output_goes_to_the_log_and_time_is_taken(tmp_path):
    environment = module(tmp_path, "import sys; print('arguments', sys.argv[1:])")
    trainer = Trainer(("played_trainer",), ("a=1",), tmp_path / "run")
    assert trainer.run(environment=environment) > 0
    assert trainer.log.read_text() == "arguments ['a=1']\n"


def test_a_failure_names_its_log(tmp_path):
    environment = module(tmp_path, "raise SystemExit(3)")
    trainer = Trainer(("played_trainer",), (), tmp_path)
    with pytest.raises(InfrastructureError, match=r"played_trainer.*\b3\b.*log\.txt"):
        trainer.run(environment=environment)


def test_an_interruption_ends_the_trainer_and_what_it_started(tmp_path):
    environment = module(
        tmp_path,
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
        "time.sleep(600)\n",
    )
    file = tmp_path / "run" / "child"

    def interrupt():
        if file.is_file() and file.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Trainer(("played_trainer",), (), tmp_path / "run").run(interrupt, environment)
    assert ends(int(file.read_text()), within=60)
