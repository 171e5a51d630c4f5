import json
import os
import subprocess
import sys
import warnings

import pytest

from docagent_rl.cli import main

ATTACK = "\x1b[2J\x1b]0;owned\x07[/b]"
SPELT = r"\x1b[2J\x1b]0;owned\x07[/b]"


def as_process(*arguments, encoding="utf-8"):
    """Run the command in a process of its own; return status, output and errors."""
    env = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "200"}
    command = [sys.executable, "-m", "docagent_rl.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, env=env, timeout=300)
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


@pytest.fixture
def docagent(monkeypatch, capsys):
    """Run the command in this process; return status, output and errors."""

    def docagent(*arguments):
        monkeypatch.setattr(sys, "argv", ["docagent-rl", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return (end.value.code, *capsys.readouterr())

    monkeypatch.setenv("COLUMNS", "200")
    return docagent


def test_an_error_spells_control_characters_out(docagent, tmp_path):
    status, _, errors = docagent("view", tmp_path / f"{ATTACK}.jsonl")
    assert status == 2
    assert "\x1b" not in errors
    assert SPELT.split("/")[0] in errors


def test_an_error_is_one_line_so_that_a_command_in_it_can_be_copied(docagent, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    _, _, errors = docagent("recipes", "show", "a_name_that_no_recipe_has")
    assert errors.count("\n") == 1


def test_a_terminal_that_lacks_characters(tmp_path):
    line = {"doc_id": "a", "question_id": "q", "question": "漢 é", "answers": "b"}
    file = tmp_path / "q.jsonl"
    file.write_text(json.dumps(line) + "\n", encoding="utf-8")
    status, output, errors = as_process("data", "show", file, encoding="latin-1")
    assert (status, errors) == (0, "")
    assert r"\u6f22 é" in output


def test_a_question_is_no_markup_and_no_escape_sequence(docagent, tmp_path):
    line = {"doc_id": "a", "question_id": "q", "question": f"What {ATTACK}?", "answers": "b"}
    (tmp_path / "q.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    status, output, errors = docagent("data", "show", tmp_path / "q.jsonl")
    assert (status, errors) == (0, "")
    assert "\x1b" not in output
    assert "".join(SPELT.split("/")[0]) in "".join(output.split())


def test_a_document_that_fails_is_named_as_it_is(docagent, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a\x1b[2J[red].pdf").write_bytes(b"%PDF-1.4 nothing")
    status, output, errors = docagent(
        "ingest", tmp_path / "in", "--store", tmp_path / "store", "--workers", 1
    )
    assert status == 2
    assert "\x1b[2J" not in output + errors
    assert r"\x1b[2J[red].pdf" in "".join(errors.split())


def test_a_package_of_the_extra_that_is_missing_is_named_with_it(tmp_path, monkeypatch):
    (tmp_path / "reportlab.py").write_text("raise ModuleNotFoundError(name='reportlab')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    status, _, errors = as_process("data", "synth", "--out", tmp_path / "out", "--documents", "1")
    assert status == 2
    assert "docagent-rl[lab]" in errors
    assert "reportlab" in errors


def test_engines_that_are_not_installed_are_no_news():
    """verl warns about each of them; a command prints only its own answer."""

    def command():
        place = {"category": UserWarning, "filename": "engine.py", "lineno": 1}
        for module in ("verl.workers.engine", "elsewhere"):
            warnings.warn_explicit("it is not available", module=module, registry={}, **place)

    with warnings.catch_warnings(record=True, action="always") as warned:
        main(command)
    assert len(warned) == 1
