"""Collections over a real store, by scripts and by a model behind a real server that computes its words."""

from __future__ import annotations

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

from docagent_rl.commands.collect import collect_command
from docagent_rl.commands.view import view_command
from docagent_rl.errors import BudgetError, UserError
from docagent_rl.records.record import write_jsonl
from docagent_rl.rollout.trajectory import read_trajectories
from tests.chat_server import ChatServer, completion, serving
from tests.play.stage import PlayingModel, timeless

RECIPES = {
    "alden": "alden_qwen2_5_vl_7b",
    "doc_v_star": "doc_v_star_qwen2_5_vl_7b",
    "mm_doc_r1": "mm_doc_r1_qwen3_4b",
    "unidoc_rl": "unidoc_rl_qwen2_5_vl_3b",
    "vrag_rl": "vrag_rl_qwen2_5_vl_7b",
}


def compute(records):
    """A model that plays and, asked for a sign of life, is ready."""
    model = PlayingModel(records)

    def reply(request):
        known = any(question in str(request["messages"]) for question in model.answers)
        return model(request) if known else completion("ready", usage=(1, 1))

    return reply


@pytest.fixture
def questions(world, tmp_path):
    records = world.records[:5]
    write_jsonl(records, tmp_path / "questions.jsonl")
    return records


def arguments(world, folder, out, *more, system="vrag_rl", overrides=()):
    given = ["--data", folder / "questions.jsonl", "--out", folder / out, *more]
    over = ["+profile=cpu", f"docagent.workspace={world.root}", "docagent.auto_demo=false", *overrides]
    if system == "alden":
        over += ["docagent.env.modality=visual", "docagent.text_retriever=null"]
    return [str(each) for each in (RECIPES[system], *given, "--", *over)]


def invoked(given):
    app = typer.Typer()
    app.command()(collect_command)
    found = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


async def collected(world, folder, server, out, *more, **options):
    given = arguments(world, folder, out, "--base-url", server.url, "--model", "m", *more, **options)
    return await asyncio.to_thread(invoked, given)


def sessions(folder):
    return list(read_trajectories(folder / "sessions.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("system", sorted(RECIPES))
def test_the_oracle_collects_every_question_of_every_system(world, questions, tmp_path, system):
    found = invoked(arguments(world, tmp_path, "run", "--player", "oracle", system=system))
    assert found.exit_code == 0, found.output
    assert "5 sessions recorded" in found.output
    folder = tmp_path / "run"
    assert [each.uid for each in sessions(folder)] == [record.question_id for record in questions]
    # nothing was dropped: the lines are those of the run
    assert (folder / "kept.jsonl").read_bytes() == (folder / "sessions.jsonl").read_bytes()
    funnel = json.loads((folder / "funnel.json").read_text())
    assert [stage["sessions"] for stage in funnel["stages"]] == [5, 5, 5]


@pytest.mark.slow
async def test_a_teacher_is_kept_to_its_budget_and_goes_on(world, questions, tmp_path):
    async with serving(ChatServer(compute=compute(questions))) as server:
        with pytest.raises(BudgetError, match=r"Left undone: [1-4] of 5 sessions"):
            await collected(world, tmp_path, server, "run", "--max-requests", "7", "--at-a-time", "1")
        played = len((tmp_path / "run" / "sessions.jsonl").read_bytes().splitlines())
        assert 0 < played < 5
        assert len(server.requests) == 7  # the sign of life among them
        found = await collected(world, tmp_path, server, "run")
        asked = [json.dumps(each) for each in server.requests]
    assert found.exit_code == 0
    assert "Models asked" in found.output
    # but for the two signs of life no request is sent twice, those of the session cut short neither
    assert len(asked) - len(set(asked)) == 1
    assert [each.status for each in sessions(tmp_path / "run")] == ["finished"] * 5


@pytest.mark.slow
async def test_what_environments_ask_is_in_the_same_budget_and_tally(world, questions, tmp_path):
    def reply(request):
        return completion("A plan." if "ready" not in str(request) else "ready", usage=(100, 10))

    async with serving(ChatServer(compute=reply)) as server:
        roles = (
            f"+docagent.roles.planner={{base_url: '{server.url}', model: p, price: {{input: 1, output: 2}}}}"
        )
        options = {"system": "mm_doc_r1", "overrides": [roles]}
        few = ("--player", "oracle", "--max-requests", "3", "--at-a-time", "1")
        given = arguments(world, tmp_path, "run", *few, **options)
        with pytest.raises(BudgetError, match="3 requests"):
            await asyncio.to_thread(invoked, given)
        checked = len(server.requests) - 3  # the sign of life before the run is not the run's
        given = arguments(world, tmp_path, "run", "--player", "oracle", **options)
        found = await asyncio.to_thread(invoked, given)
        asked = [json.dumps(each) for each in server.requests if "ready" not in str(each)]
    assert found.exit_code == 0, found.output
    assert checked == 1
    assert len(asked) == len(set(asked)) >= 5
    (line,) = [row for row in found.output.splitlines() if row.startswith("│ p ")]
    assert "USD" in line
    assert [each.status for each in sessions(tmp_path / "run")] == ["finished"] * 5


@pytest.mark.slow
async def test_a_preset_filters_what_a_teacher_played_and_others_filter_again(world, questions, tmp_path):
    wrong = compute(questions[:4])

    def reply(request):
        text = str(request["messages"])
        if questions[4].question in text:
            return completion("<think>So.</think><answer>no idea</answer>", usage=(1, 1))
        return wrong(request)

    (tmp_path / "own.yaml").write_text("filters: [format, {kind: answer, by: outcome, threshold: 1.0}]\n")
    async with serving(ChatServer(compute=reply)) as server:
        await collected(world, tmp_path, server, "run", "--preset", tmp_path / "own.yaml")
        asked = len(server.requests)
        kept = [each.uid for each in read_trajectories(tmp_path / "run" / "kept.jsonl")]
        assert kept == [record.question_id for record in questions[:4]]
        verdicts = [
            json.loads(line) for line in (tmp_path / "run" / "verdicts.jsonl").read_text().splitlines()
        ]
        assert [each["dropped_by"] for each in verdicts] == [None] * 4 + ["1 format"]
    (tmp_path / "own.yaml").write_text("filters: [finished]\n")
    # the teacher is gone, and nobody asks for it
    found = await collected(world, tmp_path, server, "run", "--preset", tmp_path / "own.yaml")
    assert len(server.requests) == asked
    assert "1 finished" in found.output
    assert len(list(read_trajectories(tmp_path / "run" / "kept.jsonl"))) == 5


@pytest.mark.slow
async def test_the_experts_of_vrag_rl_play_and_draw(world, questions, tmp_path):
    def draw(request):
        return completion("[5, 5, 50, 50]", usage=(1, 1))

    async with (
        serving(ChatServer(compute=compute(questions))) as server,
        serving(ChatServer(compute=draw)) as drawing,
    ):
        second = ("--grounder-base-url", drawing.url, "--grounder-model", "g")
        await collected(world, tmp_path, server, "run", "--preset", "vrag_rl", *second)
    played = sessions(tmp_path / "run")
    assert all("<bbox>[5, 5, 50, 50]</bbox>" in each.turns[1].text for each in played)
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert manifest["player"]["model"]["grounder"]["model"] == "g"
    assert manifest["player"]["teacher"]["guided_search"] is True


@pytest.mark.slow
def test_a_run_is_said_again(world, questions, tmp_path):
    invoked(arguments(world, tmp_path, "first", "--player", "detours", "--sessions", "2"))
    given = ("--player", "replay", "--replay", tmp_path / "first", "--sessions", "2")
    invoked(arguments(world, tmp_path, "again", *given))
    first, again = sessions(tmp_path / "first"), sessions(tmp_path / "again")
    assert [t.text for each in first for t in each.turns] == [t.text for each in again for t in each.turns]
    assert all(each.metrics["replay/same"] == 1 for each in again)
    app = typer.Typer()
    app.command()(view_command)
    shown = CliRunner().invoke(app, [str(tmp_path / "again"), "--table"], env={"COLUMNS": "200"}).output
    assert all(record.question_id in shown for record in questions)


@pytest.mark.slow
async def test_killed_at_random_points_it_goes_on_to_the_same_files(world, questions, tmp_path):
    chance = random.Random(11)
    async with serving(ChatServer(compute=compute(questions), slow_s=0.1)) as server:
        await collected(world, tmp_path, server, "whole")
        named = ("--base-url", server.url, "--model", "m", "--at-a-time", "2")
        given = arguments(world, tmp_path, "killed", *named)
        for kill in (signal.SIGKILL, signal.SIGINT):
            asked = len(server.requests)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "docagent_rl.cli", "collect", *given,
                stderr=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            wanted = asked + chance.randint(7, 9)
            while len(server.requests) < wanted and process.returncode is None:
                await asyncio.sleep(0.02)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, kill)
            ended = await process.wait()
        assert ended == 130
        assert 0 < len((tmp_path / "killed" / "sessions.jsonl").read_bytes().splitlines()) < 5
        await collected(world, tmp_path, server, "killed")
    whole, killed = ([timeless(e) for e in sessions(tmp_path / name)] for name in ("whole", "killed"))
    assert whole == killed
    for name in ("run.json", "funnel.json", "verdicts.jsonl"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--player", "endpoint"), "endpoint"),
        (("--player", "oracle", "--base-url", "http://127.0.0.1:1/v1", "--model", "m"), "oracle"),
        (("--player", "replay"), "--replay"),
        (("--player", "oracle", "--replay", "x"), "--replay"),
        (("--player", "oracle", "--preset", "own"), "own"),
        (("--player", "oracle", "--preset", "doc_v_star"), "doc_v_star"),
        (
            ("--player", "oracle", "--grounder-base-url", "http://127.0.0.1:1/v1", "--grounder-model", "m"),
            "boxes",
        ),
        (
            ("--player", "oracle", "--evidence-base-url", "http://127.0.0.1:1/v1", "--evidence-model", "m"),
            "filter",
        ),
    ],
)
def test_options_that_do_not_go_together_are_told(world, questions, tmp_path, options, message):
    with pytest.raises(UserError, match=message):
        invoked(arguments(world, tmp_path, "run", *options))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
async def test_a_run_of_which_nothing_was_played_fails(world, questions, tmp_path):
    def reply(request):
        return 500 if "Reply with the word ready" not in str(request) else "ready"

    (tmp_path / "m.yaml").write_text("{backoff_s: 0, attempts: 1}")
    async with serving(ChatServer(compute=reply)) as server:
        with pytest.raises(UserError, match="none of its 5 sessions could be played"):
            await collected(world, tmp_path, server, "run", "--endpoint", tmp_path / "m.yaml")
        server.compute = compute(questions)
        found = await collected(world, tmp_path, server, "run", "--endpoint", tmp_path / "m.yaml")
    assert "5 sessions recorded" in found.output
    assert (tmp_path / "run" / "kept.jsonl").read_bytes().count(b"\n") == 5


@pytest.mark.slow
def test_what_another_model_can_do_is_dropped(world, questions, tmp_path):
    oracle = ("--player", "oracle", "--preset", "unidoc_rl")
    invoked(arguments(world, tmp_path, "able", *oracle, system="unidoc_rl"))
    given = arguments(world, tmp_path, "run", *oracle, "--failed-by", tmp_path / "able", system="unidoc_rl")
    invoked(given)
    last = json.loads((tmp_path / "run" / "funnel.json").read_text())["stages"][-1]
    assert (last["step"], last["sessions"]) == ("4 failed", 0)
    assert (tmp_path / "able" / "kept.jsonl").read_bytes().count(b"\n") == 5


@pytest.mark.slow
def test_what_is_missing_is_told_before_anything_is_played(world, questions, tmp_path):
    silent = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    with pytest.raises(UserError, match="the teacher does not answer"):
        invoked(arguments(world, tmp_path, "run", *silent))
    (tmp_path / "own.yaml").write_text("filters: [{kind: evidence, judged: true}]\n")
    unseen = ("--player", "oracle", "--evidence-base-url", "http://127.0.0.1:9/v1", "--evidence-model", "m")
    unseen = (*unseen, "--preset", tmp_path / "own.yaml")
    with pytest.raises(UserError, match="the evidence judge does not answer"):
        invoked(arguments(world, tmp_path, "run", *unseen))
    with pytest.raises(UserError, match="is no run"):
        invoked(arguments(world, tmp_path, "run", "--player", "oracle", "--failed-by", tmp_path))
    gone = [f"docagent.retriever.index={tmp_path / 'gone'}"]
    with pytest.raises(UserError, match="gone"):
        invoked(arguments(world, tmp_path, "run", "--player", "oracle", overrides=gone))
    assert not (tmp_path / "run").exists()
