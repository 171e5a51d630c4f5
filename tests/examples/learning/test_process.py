from pathlib import Path

import pytest

from docagent_rl.base.errors import InfrastructureError
from learning.process import Trainer
from learning.warm_start import choose
from tests.processes import ends

STUDY = Path(__file__).parents[3] / "examples" / "learning" / "__init__.py"


@pytest.fixture
def trainer(tmp_path):
    """Return a function that makes a trainer from a module's text, which is written to the folder
    of the run.
    """

    def make(text, *arguments):
        (tmp_path / "played_trainer.py").write_text(text)
        return Trainer(("played_trainer",), arguments, tmp_path)

    return make


def test_output_goes_to_the_log_and_the_study_is_found_from_any_folder(trainer, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    made = trainer("import learning, sys; print(sys.argv[1:], learning.__file__)", "a=1")
    assert made.run() > 0
    assert made.log.read_text() == f"['a=1'] {STUDY}\n"


def test_a_failure_names_its_log(trainer):
    with pytest.raises(InfrastructureError, match=r"played_trainer.*\b3\b.*log\.txt"):
        trainer("raise SystemExit(3)").run()


def test_an_interruption_ends_the_trainer_and_what_it_started(trainer, tmp_path):
    made = trainer(
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    file = tmp_path / "child"

    def interrupt():
        if file.is_file() and file.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.run(interrupt)
    assert ends(int(file.read_text()), within=60)


STEPS = list(range(5, 55, 5))


@pytest.mark.parametrize("first_strong", [1, 2, 5, 6, 9, 10])
def test_the_last_checkpoint_below_the_ceiling_is_found(first_strong):
    accuracy = {step: 0.1 if number < first_strong else 0.8 for number, step in enumerate(STEPS)}
    step, measured = choose(STEPS, accuracy.__getitem__, 0.4)
    assert step == STEPS[first_strong - 1]
    assert len(measured) <= 4
    assert list(measured) == sorted(measured)
