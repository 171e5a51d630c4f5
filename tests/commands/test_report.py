"""The command, called as on the command line."""

import asyncio
import json

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.checkpoints.audit import audit_run
from docagent_rl.commands.report import report_command
from tests.chat_server import ChatServer, serving
from tests.commands.conftest import called
from tests.lab.eval.scoring.test_run import mixed, verdict
from tests.lab.eval.scoring.trajectories import answered, question, run_of

KEY = "sk-secret-123456"


def reported(*arguments):
    return called(report_command, *arguments, "--draws", 200)


def judging(**more):
    return ChatServer(compute=lambda r: "ready" if "ready" in str(r) else verdict(r), **more)


def by(server, *more):
    return ("--judge-base-url", server.url, "--judge-model", "judge-1", *more)


def better(number=12):
    for n in range(number):
        sample = question(
            n, dataset="mmlongbench", answer_format="Str", extra={"gold": "Lake Ontario"}
        )
        yield answered(sample, "Lake Ontario", system="alden")


def test_two_runs_without_a_judge(tmp_path):
    run_of(tmp_path / "a", mixed(), recipe="alden_qwen2_5_vl_7b")
    run_of(tmp_path / "b", better(), recipe="alden_qwen2_5_vl_7b")
    out = tmp_path / "out"
    given = (tmp_path / "a", tmp_path / "b", "--out", out, "--paired", "--pass-at", 1)
    text = " ".join(reported(*given).stdout.split())
    title = "MMLongBench-Doc: b (second) against a (first)"
    for part in (title, "33.5 (vdr-2b); 36.7 (colqwen2-v1)", "†"):
        assert part in text
    data = json.loads((out / "report.json").read_text())
    assert data["paired"]["mmlongbench"]["won"] == 8
    assert [each["name"] for each in data["runs"]] == ["a", "b"]
    files = {path.name: path.read_bytes() for path in out.iterdir()}
    assert files.keys() == {"report.json", "report.md"}
    # again, from the scores that are kept: the same files
    reported(*given)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == files


async def test_a_judge_behind_an_endpoint_and_its_key(tmp_path, monkeypatch):
    monkeypatch.setenv("KEY_OF_MINE", KEY)
    run_of(tmp_path / "a", mixed())
    async with serving(judging()) as server:
        options = by(server, "--judge-api-key-env", "KEY_OF_MINE")
        done = await asyncio.to_thread(
            reported, tmp_path / "a", "--out", tmp_path / "out", *options
        )
        asked = len(server.requests)
        await asyncio.to_thread(reported, tmp_path / "a", "--out", tmp_path / "out2", *options)
    assert len(server.requests) == asked + 1  # the sign of life
    assert {each["Authorization"] for each in server.headers} == {f"Bearer {KEY}"}
    assert "judge-1" in done.stdout
    for path in (*(tmp_path / "out").iterdir(), *(tmp_path / "a").glob("*.json*")):
        assert KEY.encode() not in path.read_bytes()
    assert (tmp_path / "out" / "report.json").read_bytes() == (
        tmp_path / "out2" / "report.json"
    ).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "--paired"), " 1 "),
        (("a", "a"), "a"),
        (("gone",), "gone"),
        (("a", "--judge-model", "m"), "model"),
    ],
)
def test_what_cannot_be_done_is_one_error(tmp_path, arguments, message):
    run_of(tmp_path / "a", mixed(2))
    named = [tmp_path / each if each in ("a", "gone") else each for each in arguments]
    with pytest.raises(UserError, match=message):
        reported(*named, "--out", tmp_path / "out")


def test_a_run_that_is_not_as_it_was_played_is_refused(tmp_path):
    run = run_of(tmp_path / "a", better(2)).path
    for name in ("trajectories.jsonl", "run.json"):
        file = run / name
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"1", b"2", 1))
        with pytest.raises(UserError, match=f"{name} does not contain.*docagent-rl check"):
            reported(run, "--out", tmp_path / "out")
        file.write_bytes(whole)
    reported(run, "--out", run)
    assert audit_run(run).damages == []
    (run / "report.json").write_text((run / "report.json").read_text().replace("2", "3", 1))
    assert [each.path for each in audit_run(run).damages] == [run / "report.json"]


def test_a_judge_that_is_down_is_named_before_runs_are_read(tmp_path):
    judge = ["--judge-base-url", "http://127.0.0.1:1/v1", "--judge-model", "m"]
    with pytest.raises(InfrastructureError, match=r"--judge-base-url=.*nothing listens there"):
        called(report_command, tmp_path / "run", "--out", tmp_path / "report", *judge)
