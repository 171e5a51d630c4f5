"""The study prints its commands, runs each once, and ends those that exceed their time."""

import json

from typer.testing import CliRunner

from small_model import __main__ as study
from small_model.hand_checked import QUESTIONS, add
from small_model.plan import HELD_OUT, LEARNT


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
