from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from docagent_rl.commands.data import app
from docagent_rl.errors import UserError
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.sft.rows import read_sft, sft_rows
from tests.examples.learning.small_task import SmallTask
from tests.sft.recorded import about, in_texts, masked, model_of, with_turn, write

ANSWER = "<answer>5</answer>"


@pytest.fixture(scope="module")
def task(tmp_path_factory, processor):
    return SmallTask(tmp_path_factory.mktemp("task"), processor)


@pytest.fixture(scope="module")
def model(task, tmp_path_factory):
    return model_of(task, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def played(task):
    return task.play()


@pytest.fixture
def sft(task, model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments, ok=True):
        options = ("--model", str(model), "--store", str(task.paths.store))
        result = CliRunner().invoke(app, ["sft", *map(str, arguments), *options])
        if ok:
            assert result.exit_code == 0, result.output
        elif result.exception:
            raise result.exception
        return result

    return run


def test_rows_are_those_that_were_played_however_they_were_recorded(sft, task, played, tmp_path):
    trajectory = played.trajectory
    file = write([trajectory, in_texts(trajectory)], tmp_path / "sessions.jsonl")
    told = sft(file, "--out", tmp_path / "rows.parquet").stdout
    (row,) = sft_rows(trajectory, played.ledgers)
    rows = list(read_sft(tmp_path / "rows.parquet", task.processor.tokenizer))
    assert [(r.input_ids, r.loss_mask, r.images) for r in rows] == [
        (row.input_ids, row.loss_mask, row.images)
    ] * 2
    tokens, trained = len(row.input_ids), sum(row.loss_mask)
    assert f"2 rows of 2 sessions, {2 * tokens} tokens ({2 * trained} trained on), 2 images" in told
    assert f"longest row {tokens}" in told


def test_what_is_left_out_is_counted_by_reason(sft, played, tmp_path):
    good = played.trajectory
    text = in_texts(good)
    sessions = [
        good,
        *[masked(good)] * 3,
        with_turn(good, stop="truncated"),
        with_turn(text, text="<|im_start|>user"),
        with_turn(text, text=""),
    ]
    result = sft(write(sessions, tmp_path / "s.jsonl"), "--out", tmp_path / "rows.parquet")
    assert "1 rows of 1 sessions" in result.stdout
    counts = {line.split("│")[1].strip(): line for line in result.stderr.splitlines() if "│" in line}
    reasons = {"3": "masked", "2": "spells a special token", "1": "cut off"}
    assert all(reason in counts[count] for count, reason in reasons.items())


def test_rows_that_are_too_long_are_left_out_whole(sft, played, tmp_path):
    file = write([played.trajectory], tmp_path / "s.jsonl")
    tokens = len(sft_rows(played.trajectory, played.ledgers)[0].input_ids)
    assert "1 rows" in sft(file, "--out", tmp_path / "fit.parquet", "--max-length", tokens).stdout
    with pytest.raises(UserError, match="no rows to write"):
        sft(file, "--out", tmp_path / "none.parquet", "--max-length", tokens - 1, ok=False)
    assert not (tmp_path / "none.parquet").exists()


def test_sessions_of_a_document_stay_together(sft, task, played, tmp_path):
    sessions = [about(played.trajectory, f"doc{number % 5}.pdf", number) for number in range(20)]
    for number, session in enumerate(sessions):
        session.record = {**session.record, "question_id": f"q{number}"}
    file = write(sessions, tmp_path / "s.jsonl")

    def parts(name, *options):
        sft(file, "--out", tmp_path / name, "--val-fraction", 0.4, *options)
        return [
            [row.question_id for row in read_sft(tmp_path / name / f"{part}.parquet")]
            for part in ("train", "val")
        ]

    train, val = parts("a")
    assert sorted([*train, *val]) == sorted(f"q{number}" for number in range(20))
    documents = [{int(name[1:]) % 5 for name in part} for part in (train, val)]
    assert documents[0] & documents[1] == set()
    assert len(documents[1]) == 2
    assert parts("b") == [train, val]
    assert any(parts(f"seed{seed}", "--seed", seed) != [train, val] for seed in (1, 2, 3))
    assert (tmp_path / "a" / "train.parquet").read_bytes() == (tmp_path / "b" / "train.parquet").read_bytes()


def test_the_same_command_changes_nothing_and_other_rows_need_force(sft, played, tmp_path):
    file, out = write([played.trajectory], tmp_path / "s.jsonl"), tmp_path / "rows.parquet"
    sft(file, "--out", out)
    assert "unchanged" in sft(file, "--out", out).stdout
    write([played.trajectory] * 2, file)
    with pytest.raises(UserError, match="holds something else"):
        sft(file, "--out", out, ok=False)
    assert "2 rows" in sft(file, "--out", out, "--force").stdout


def test_a_session_of_another_model_is_an_error_that_says_what_to_do(sft, played, tmp_path):
    other = with_turn(played.trajectory)
    other.prompt_tokens += 1
    file = write([other], tmp_path / "s.jsonl")
    with pytest.raises(UserError, match="--retokenise"):
        sft(file, "--out", tmp_path / "rows.parquet", ok=False)
    assert "1 rows" in sft(file, "--out", tmp_path / "rows.parquet", "--retokenise").stdout


def test_pages_that_are_not_those_shown_are_refused(sft, played, tmp_path):
    text = played.trajectory.to_json()
    file = tmp_path / "s.jsonl"
    (image,) = (part["image"] for turn in json.loads(text)["turns"] for m in turn["observation"]
                for part in m["parts"] if "image" in part)  # fmt: skip
    file.write_text(text.replace(image["page_hash"], "0" * 64) + "\n")
    with pytest.raises(UserError, match="is another one than the session showed"):
        sft(file, "--out", tmp_path / "rows.parquet", ok=False)


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--val-fraction", "0.5", "1 document"),
        ("--val-fraction", "1.5", "fraction"),
        ("--template-kwargs", "[1]", "JSON"),
        ("--template-kwargs", "{", "JSON"),
    ],
)
def test_options_that_cannot_be_are_refused(sft, played, tmp_path, option, value, named):
    file = write([played.trajectory], tmp_path / "s.jsonl")
    with pytest.raises(UserError, match=named):
        sft(file, "--out", tmp_path / "rows", option, value, ok=False)


def test_inputs_that_are_missing_are_named(sft, tmp_path):
    with pytest.raises(UserError, match=r"gone\.jsonl"):
        sft(tmp_path / "gone.jsonl", "--out", tmp_path / "rows.parquet", ok=False)
    with pytest.raises(UserError, match=r"\.jsonl"):
        sft(tmp_path, "--out", tmp_path / "rows.parquet", ok=False)


def test_a_folder_of_sessions_is_read_by_name(sft, played, tmp_path):
    folder = tmp_path / "trajectories"
    folder.mkdir()
    for name in ("2", "1", "val-2"):
        write([played.trajectory], folder / f"{name}.jsonl")
    assert "2 rows of 2 sessions" in sft(folder, "--out", tmp_path / "rows.parquet").stdout
    named = sft(folder, folder / "val-2.jsonl", "--out", tmp_path / "named.parquet").stdout
    assert "3 rows of 3 sessions" in named


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_no_file_and_the_next_one_the_same(task, model, played, tmp_path):
    file = write([played.trajectory] * 400, tmp_path / "s.jsonl")
    command = [sys.executable, "-m", "docagent_rl.cli", "data", "sft", str(file), "--model", str(model)]
    command += ["--store", str(task.paths.store), "--out"]
    subprocess.run([*command, str(tmp_path / "whole.parquet")], check=True, capture_output=True)
    cut = tmp_path / "cut"
    process = subprocess.Popen(
        [*command, str(cut / "rows.parquet")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (cut.is_dir() and any(cut.iterdir())):
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (cut / "rows.parquet").exists()
    subprocess.run([*command, str(cut / "rows.parquet")], check=True, capture_output=True)
    assert (cut / "rows.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert [path.name for path in cut.iterdir()] == ["rows.parquet"]
    assert len(list(read_trajectories(file))) == len(list(read_sft(cut / "rows.parquet"))) == 400
