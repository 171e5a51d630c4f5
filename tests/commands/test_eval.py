"""Evaluations over a real store, with a model behind a real server that computes what it says."""

import asyncio
import json
import os
import random
import signal
import sys
from contextlib import suppress

import pytest
import typer
from typer.testing import CliRunner

from docagent_rl.commands.eval import _report, eval_command
from docagent_rl.commands.view import view_command
from docagent_rl.endpoints.price import Price
from docagent_rl.endpoints.usage import message_tokens
from docagent_rl.errors import UserError
from docagent_rl.eval.scoring.run import ScoringSettings, score_run
from docagent_rl.records.record import write_jsonl
from docagent_rl.rollout.trajectory import read_trajectories
from tests.chat_server import ChatServer, completion, serving
from tests.eval.scoring.sessions import run_of
from tests.eval.scoring.test_run import mixed, panel, verdict
from tests.play.stage import PlayingModel, texts_of, timeless

RECIPE = "vrag_rl_qwen2_5_vl_7b"


def playing(records):
    """`PlayingModel` that is also ready."""
    model = PlayingModel(records)

    def compute(request):
        known = any(question in str(request["messages"]) for question in model.answers)
        return model(request) if known else completion("ready")

    return compute


class ReadingModel:
    """Gives the answer of a question where it stands in what it is shown, after an action as ReAct has it."""

    def __init__(self, records) -> None:
        self.answers = {record.question: record.answers[0] for record in records}

    def __call__(self, request: dict) -> dict:
        messages = request["messages"]
        texts = [text for message in messages if message["role"] == "user" for text in texts_of(message)]
        shown = "\n".join(texts)
        question = next((question for question in self.answers if question in shown), None)
        if question is None:
            return completion("ready")
        answer = self.answers[question]
        found = answer in shown.replace(question, "")
        text = f"<answer>{answer if found else 'unknown'}</answer>"
        if "Action:" in "\n".join(map(str, messages[:1])):
            acts = sum(message["role"] == "assistant" for message in messages)
            text = f"Thought: hm\nAction: answer[{answer}]" if found else f"Action: open[{acts + 1}]"
        return completion(text, usage=(message_tokens(messages), 9))


@pytest.fixture
def questions(world, tmp_path):
    records = world.records[:6]
    write_jsonl(records, tmp_path / "questions.jsonl")
    return records


def arguments(world, folder, url, *more, agent="system", overrides=()):
    given = ["--data", folder / "questions.jsonl", "--agent", agent, *more]
    given += ["--model", "m", "--base-url", url] if url else []
    over = ["+profile=cpu", f"docagent.workspace={world.root}", "docagent.auto_demo=false", *overrides]
    return [str(each) for each in (RECIPE, *given, "--", *over)]


def called(command, given):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, given, env={"COLUMNS": "200"})


async def evaluated(world, folder, server, out, **more):
    given = arguments(world, folder, server.url, "--out", out, **more)
    found = await asyncio.to_thread(called, eval_command, given)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


@pytest.mark.slow
async def test_a_system_is_played_recorded_and_shown(world, questions, tmp_path):
    async with serving(ChatServer(compute=playing(questions))) as server:
        found = await evaluated(world, tmp_path, server, tmp_path / "run")
    assert found.exit_code == 0, found.output
    assert "6 sessions" in found.output
    played = list(read_trajectories(tmp_path / "run" / "sessions.jsonl"))
    assert [each.uid for each in played] == [record.question_id for record in questions]
    assert all(each.status == "finished" for each in played)
    assert sum(each.metrics["reward/outcome"] for each in played) == 6
    scored = [json.loads(line) for line in (tmp_path / "run" / "scores.jsonl").read_text().splitlines()]
    assert [each["question_id"] for each in scored] == [record.question_id for record in questions]
    assert all(each["values"]["rule"] == 1.0 for each in scored)
    assert (tmp_path / "run" / "report.md").read_text()
    shown = called(view_command, [str(tmp_path / "run"), "--table"]).output
    assert questions[0].question_id in shown
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (manifest["recipe"], manifest["agent"], manifest["player"]["model"]["model"]) == (
        RECIPE,
        "system",
        "m",
    )
    assert manifest["config"]["docagent"]["store"] == str(world.root / "store")
    assert manifest["config"]["data.max_prompt_length"] == 1536
    assert manifest["changes"]["data.max_prompt_length"] == 1536


@pytest.mark.slow
async def test_baselines_see_what_they_should_and_nothing_else(world, questions, tmp_path):
    """The reader knows what is written where: who sees the evidence answers."""
    rewards = {}
    async with serving(ChatServer(compute=ReadingModel(questions))) as server:
        for agent in ("question_only", "whole_document", "rag_text", "react"):
            overrides = ["data.max_prompt_length=6000"]
            if agent in ("react", "whole_document"):
                overrides.append("docagent.env.form=text")
            await evaluated(world, tmp_path, server, tmp_path / agent, agent=agent, overrides=overrides)
            played = list(read_trajectories(tmp_path / agent / "sessions.jsonl"))
            assert not any(each.masked for each in played), [each.error for each in played]
            assert {each.system for each in played} == {agent}
            rewards[agent] = sum(each.reward for each in played)
            seen = [each.metrics["pages_seen"] for each in played]
            assert (max(seen) == 0) == (agent == "question_only")
    assert rewards["question_only"] == 0
    assert rewards["whole_document"] >= 4
    assert rewards["rag_text"] >= 3
    assert rewards["react"] >= 1


@pytest.mark.slow
async def test_what_cannot_be_played_is_wrong_and_reported(world, questions, tmp_path):
    from dataclasses import replace

    records = [*questions[:2], replace(questions[2], doc_id="missing", question_id="lost")]
    write_jsonl(records, tmp_path / "questions.jsonl")
    async with serving(ChatServer(compute=playing(questions))) as server:
        found = await evaluated(world, tmp_path, server, tmp_path / "run")
    assert found.exit_code == 0
    assert "1 sessions could not be played and count as wrong (1 sample)" in found.output
    assert "no document 'missing'" in " ".join(found.output.split())
    assert [each.masked for each in read_trajectories(tmp_path / "run" / "sessions.jsonl")] == [
        False,
        False,
        True,
    ]


@pytest.mark.slow
async def test_another_run_is_not_gone_on_with(world, questions, tmp_path):
    async with serving(ChatServer(compute=playing(questions))) as server:
        await evaluated(world, tmp_path, server, tmp_path / "run")
        asked = len(server.requests)
        await evaluated(world, tmp_path, server, tmp_path / "run")
        assert len(server.requests) == asked + 1  # the sign of life
        with pytest.raises(UserError, match="holds another run"):
            await evaluated(world, tmp_path, server, tmp_path / "run", overrides=["docagent.env.max_turns=2"])


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "lowest", "highest"), [("oracle", 1.0, 1.0), ("random", 0.0, 0.4)])
async def test_floor_and_ceiling_need_no_model(world, questions, tmp_path, agent, lowest, highest):
    given = arguments(world, tmp_path, "", "--out", tmp_path / "run", agent=agent)
    found = await asyncio.to_thread(called, eval_command, given)
    assert found.exit_code == 0, found.output
    played = list(read_trajectories(tmp_path / "run" / "sessions.jsonl"))
    assert lowest <= sum(each.metrics["reward/outcome"] for each in played) / 6 <= highest
    assert json.loads((tmp_path / "run" / "run.json").read_text())["player"]["model"] == agent


def told_costs(folder):
    (run,) = json.loads((folder / "report.json").read_text())["runs"]
    (benchmark,) = run["benchmarks"].values()
    return benchmark["total_cost"]


async def test_the_report_at_the_end_has_costs_and_keeps_what_a_model_has_judged(tmp_path):
    folder = run_of(tmp_path / "run", mixed())
    await asyncio.to_thread(_report, folder, None)
    assert told_costs(folder.path) is None
    price = Price(1.0, 2.0)
    await asyncio.to_thread(_report, folder, price)
    cost = told_costs(folder.path)
    assert cost > 0
    assert "†" in (folder.path / "report.md").read_text()
    async with serving(ChatServer(compute=verdict)) as server:
        await score_run(folder, ScoringSettings(panel(server.url)))
    judged = (folder.path / "scores.jsonl").read_bytes()
    await asyncio.to_thread(_report, folder, price)
    assert (folder.path / "scores.jsonl").read_bytes() == judged
    assert told_costs(folder.path) == pytest.approx(cost)
    page = (folder.path / "report.md").read_text()
    assert "judge-1" in page
    assert "†" not in page.partition("rule judge")[0]


def test_a_model_has_to_be_named(world, questions, tmp_path):
    given = arguments(world, tmp_path, "", "--out", tmp_path / "run")
    with pytest.raises(UserError, match="name the model that plays"):
        raise called(eval_command, given).exception
    given = arguments(world, tmp_path, "http://x/v1", "--out", tmp_path / "run", agent="random")
    with pytest.raises(UserError, match="asks no model"):
        raise called(eval_command, given).exception


@pytest.mark.slow
async def test_killed_at_random_points_it_goes_on_to_the_same_files(world, questions, tmp_path):
    chance = random.Random(7)
    async with serving(ChatServer(compute=playing(questions), slow_s=0.15)) as server:
        await evaluated(world, tmp_path, server, tmp_path / "whole")
        given = arguments(world, tmp_path, server.url, "--out", tmp_path / "killed", "--at-a-time", "2")
        for end in (signal.SIGINT, signal.SIGKILL):
            asked = len(server.requests)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "docagent_rl.cli", "eval", *given,
                stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            wanted = asked + chance.randint(3, 7)
            while len(server.requests) < wanted and process.returncode is None:
                await asyncio.sleep(0.02)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, end)
            _, said = await process.communicate()
            if end is signal.SIGINT:
                assert process.returncode == 130, said[-2000:]
                assert b"What was played is kept" in said
        await evaluated(world, tmp_path, server, tmp_path / "killed")
    whole, killed = (
        [timeless(each) for each in read_trajectories(tmp_path / name / "sessions.jsonl")]
        for name in ("whole", "killed")
    )
    assert whole == killed
    assert (tmp_path / "whole" / "run.json").read_text() == (tmp_path / "killed" / "run.json").read_text()
