"""The command as it is called."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docagent_rl.commands.report import run_names, write_report
from docagent_rl.errors import UserError
from tests.chat_server import ChatServer, serving
from tests.eval.scoring.sessions import answered, question, run_of
from tests.eval.scoring.test_run import mixed, verdict


def command(*arguments, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "docagent_rl.cli", "report", *map(str, arguments), "--draws", "200"],
        capture_output=True, text=True, timeout=120, env=os.environ | {"COLUMNS": "200"} | environment,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip


def better(number=12):
    for n in range(number):
        record = question(n, dataset="mmlongbench", answer_format="Str", extra={"gold": "Lake Ontario"})
        yield answered(record, "Lake Ontario", system="alden")


@pytest.mark.slow
def test_two_runs_without_a_judge(tmp_path):
    run_of(tmp_path / "a", mixed(), recipe="alden_qwen2_5_vl_7b")
    run_of(tmp_path / "b", better(), recipe="alden_qwen2_5_vl_7b")
    out = tmp_path / "out"
    done = command(tmp_path / "a", tmp_path / "b", "--out", out, "--paired", "--pass-at", 1)
    assert done.returncode == 0, done.stderr
    assert "MMLongBench-Doc: b against a" in done.stdout
    assert "33.5 (vdr-2b); 36.7 (colqwen2-v1)" in " ".join(done.stdout.split())
    assert "†" in done.stdout
    data = json.loads((out / "report.json").read_text())
    assert data["paired"]["mmlongbench"]["won"] == 8
    assert [each["name"] for each in data["runs"]] == ["a", "b"]
    assert (out / "report.md").read_text().startswith("# Report of runs")
    assert (out / "report.svg").read_text().startswith("<?xml")
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    # again, from the scores that are kept: the same files
    assert command(tmp_path / "a", tmp_path / "b", "--out", out, "--paired", "--pass-at", 1).returncode == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == files


@pytest.mark.slow
async def test_a_judge_behind_an_endpoint_and_its_key(tmp_path):
    run_of(tmp_path / "a", mixed())
    async with serving(ChatServer(compute=lambda r: "ready" if "ready" in str(r) else verdict(r))) as server:
        options = (
            "--judge-base-url",
            server.url,
            "--judge-model",
            "judge-1",
            "--judge-api-key-env",
            "KEY_OF_MINE",
        )
        done = await asyncio.to_thread(
            command, tmp_path / "a", "--out", tmp_path / "out", *options, KEY_OF_MINE="sk-secret-123456"
        )
        assert done.returncode == 0, done.stderr
        asked = len(server.requests)
        again = await asyncio.to_thread(
            command, tmp_path / "a", "--out", tmp_path / "out2", *options, KEY_OF_MINE="sk-secret-123456"
        )
        assert again.returncode == 0, again.stderr
        assert len(server.requests) == asked + 1  # the sign of life
    assert "judge-1" in done.stdout
    assert "requests" in done.stderr
    for path in (*(tmp_path / "out").iterdir(), *(tmp_path / "a").glob("*.json*")):
        assert b"sk-secret" not in path.read_bytes()
    assert (tmp_path / "out" / "report.json").read_bytes() == (tmp_path / "out2" / "report.json").read_bytes()


@pytest.mark.slow
async def test_a_budget_that_is_spent_says_how_to_go_on(tmp_path):
    run_of(tmp_path / "a", mixed())
    async with serving(ChatServer(compute=lambda r: "ready" if "ready" in str(r) else verdict(r))) as server:
        options = ("--judge-base-url", server.url, "--judge-model", "judge-1", "--judge-max-requests", 3)
        done = await asyncio.to_thread(command, tmp_path / "a", "--out", tmp_path / "out", *options)
    assert done.returncode == 2
    assert "the same command goes on" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
async def test_an_interrupt_leaves_what_the_judge_said_and_says_how_to_go_on(tmp_path):
    run_of(tmp_path / "a", mixed(40))
    server = ChatServer(compute=lambda r: "ready" if "ready" in str(r) else verdict(r), slow_s=0.05)
    async with serving(server):
        options = ("--judge-base-url", server.url, "--judge-model", "judge-1", "--judge-concurrency", "1")
        called = ("report", tmp_path / "a", "--out", tmp_path / "out", *options, "--draws", "50")
        running = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "docagent_rl.cli", *map(str, called),
            stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        while len(server.requests) < 8:
            await asyncio.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, said = await running.communicate()
        assert running.returncode == 130, said
        assert "the same command goes on" in " ".join(said.decode().split())
        assert "Traceback" not in said.decode()
        before = len(server.requests)
        server.slow_s = 0.0
        done = await asyncio.to_thread(command, tmp_path / "a", "--out", tmp_path / "out", *options)
        assert done.returncode == 0, done.stderr
    texts = {str(request["messages"]) for request in server.requests}
    # what was in flight, and a sign of life more
    assert len(server.requests) <= len(texts) + 3
    assert before < len(server.requests)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "--paired"), "compares two runs, 1 are named"),
        (("a", "a"), "named twice"),
        (("gone",), "is no run"),
        (("a", "--price-in", "1"), "give both prices"),
        (("a", "--second-judge-base-url", "http://x/v1", "--second-judge-model", "m"), "needs a first one"),
        (("a", "--judge-model", "m"), "needs a model"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_one_line(tmp_path, arguments, message):
    run_of(tmp_path / "a", mixed(2))
    named = [tmp_path / each if each in ("a", "gone") else each for each in arguments]
    done = command(*named, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_names_tell_runs_apart():
    assert run_names([Path("/x/a"), Path("/y/b")]) == ["a", "b"]
    assert run_names([Path("/x/one/a"), Path("/x/two/a")]) == ["one/a", "two/a"]
    with pytest.raises(UserError, match="twice"):
        run_names([Path("/x/a"), Path("/x/../x/a")])


def test_another_file_is_not_replaced(tmp_path):
    files = {"report.md": "# new", "report.json": '{"docagent_rl_report": 1}'}
    (tmp_path / "report.md").write_text("mine")
    with pytest.raises(UserError, match="holds something else"):
        write_report(files, tmp_path, force=False)
    assert (tmp_path / "report.md").read_text() == "mine"
    write_report(files, tmp_path, force=True)
    write_report(files | {"report.md": "# newer"}, tmp_path, force=False)
    assert (tmp_path / "report.md").read_text() == "# newer"
