"""How the study runs its commands: shown, once, and no longer than they may."""

from __future__ import annotations

import json
import subprocess
import time

from typer.testing import CliRunner

from small_model import __main__ as study
from small_model.hand_checked import QUESTIONS, add
from small_model.plan import HELD_OUT, LEARNT, Step
from small_model.process import shown
from small_model.stages import StudyPaths


def python(code):
    return Step(("python", "-c", code))


def test_a_command_out_of_time_is_interrupted_and_may_go_on(tmp_path, monkeypatch):
    paths, file = StudyPaths(tmp_path), tmp_path / "said"
    file.touch()

    class Impatient(subprocess.Popen):
        """Its time is up as soon as the command waits to be interrupted."""

        def wait(self, timeout=None):
            if timeout != 7 * 60:
                return super().wait(timeout)
            while file.read_text().count("begun") == file.read_text().count("saved"):
                assert self.poll() is None
                time.sleep(0.01)
            raise subprocess.TimeoutExpired(self.args, timeout)

    code = (
        "import time\n"
        f"file = open({str(file)!r}, 'a', buffering=1)\n"
        # short sleeps: a signal between a look for signals and a sleep is seen after it
        "try:\n    print('begun', file=file)\n    while True:\n        time.sleep(0.05)\n"
        "except KeyboardInterrupt:\n    print('saved', file=file)\n"
    )
    monkeypatch.setattr(subprocess, "Popen", Impatient)
    step = Step(("python", "-c", code), minutes=7)
    for _ in range(2):
        study._do(step, paths, dry_run=False)
    assert file.read_text().split() == ["begun", "saved"] * 2
    assert shown(step, {"A": "b c"}).startswith("timeout --signal INT 7m env A='b c' python -c")


def test_a_dry_run_shows_every_command_and_runs_none(tmp_path):
    done = CliRunner().invoke(study.app, ["all", "--workspace", str(tmp_path / "w"), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "w").exists()
    words = {"uv pip install": 1, "docagent-rl ingest": 1, "docagent-rl collect": 2}
    assert {word: done.output.count(word) for word in words} == words
    for word in ("tools.documents", "data generate", "sft_trainer", "main_ppo", "--paired"):
        assert word in done.output


def test_hand_checked_questions_follow_the_templates(tmp_path):
    templates = tmp_path / "t.jsonl"
    templates.write_text('{"doc_id": "x"}\n')
    learnt, held_out = (add(templates, tmp_path / "out.jsonl", part) for part in (LEARNT, HELD_OUT))
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert learnt + held_out == len(QUESTIONS.read_text().splitlines())
    assert lines[0] == '{"doc_id": "x"}'
    assert {json.loads(line)["doc_id"] for line in lines[1:]} == set(HELD_OUT)
    assert len(lines) == 1 + held_out
