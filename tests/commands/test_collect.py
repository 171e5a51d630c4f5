"""Collections on a real store, by scripts and by a model on a real server that computes its
replies.
"""

import asyncio
import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.collect import collect_command
from docagent_rl.rollout.trajectory import read_trajectories
from tests.chat_server import ChatServer, completion, serving
from tests.checks.conftest import RECIPES
from tests.commands.conftest import asked_about, called, on_cpu
from tests.commands.test_eval import ready_or
from tests.lab.agents.stage import PlayingModel

ORACLE = ("--player", "oracle")
SILENT = "http://127.0.0.1:9/v1"


@pytest.fixture
def questions(world, tmp_path):
    return asked_about(world, tmp_path, 5)


def arguments(world, folder, out, *more, system="vrag_rl", overrides=()):
    given = [RECIPES[system], "--data", folder / "questions.jsonl", "--out", folder / out, *more]
    return [*given, *on_cpu(world, *overrides)]


def collected(world, folder, out, *more, **options):
    return called(collect_command, *arguments(world, folder, out, *more, **options))


async def taught(world, folder, server, out, *more):
    """Collect with the server's model."""
    named = ("--base-url", server.url, "--model", "m", *more)
    return await asyncio.to_thread(collected, world, folder, out, *named)


def trajectories(folder, name="trajectories"):
    return list(read_trajectories(folder / f"{name}.jsonl"))


@pytest.mark.slow
async def test_a_preset_filters_what_a_teacher_played_and_others_filter_again(
    world, questions, tmp_path
):
    right = ready_or(PlayingModel(questions[:4]))

    def reply(request):
        if questions[4].question in str(request["messages"]):
            return completion("<think>So.</think><answer>no idea</answer>", usage=(1, 1))
        return right(request)

    run, own = tmp_path / "run", tmp_path / "own.yaml"
    own.write_text("filters: [format, {kind: answer, by: outcome, threshold: 1.0}]\n")
    async with serving(ChatServer(compute=reply)) as server:
        await taught(world, tmp_path, server, "run", "--preset", own)
    asked = len(server.requests)
    assert [each.uid for each in trajectories(run, "kept")] == [
        sample.question_id for sample in questions[:4]
    ]
    verdicts = [json.loads(line) for line in (run / "verdicts.jsonl").read_text().splitlines()]
    assert [each["dropped_by"] for each in verdicts] == [None] * 4 + ["1 format"]
    own.write_text("filters: [duplicates]\n")
    # the teacher is gone, and nobody asks for it
    await taught(world, tmp_path, server, "run", "--preset", own)
    assert len(server.requests) == asked
    assert len(trajectories(run, "kept")) == 5


def at_nobody(who):
    return (f"--{who}base-url", SILENT, f"--{who}model", "m")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--player", "endpoint"), "endpoint"),
        ((*ORACLE, *at_nobody("")), "oracle"),
        ((*ORACLE, "--preset", "doc_v_star"), "doc_v_star"),
        ((*ORACLE, *at_nobody("grounder-")), "boxes"),
        pytest.param(at_nobody(""), "teacher", marks=pytest.mark.slow),
    ],
)
def test_what_does_not_go_together_or_is_missing_is_told_before_anything_is_played(
    world, questions, tmp_path, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        collected(world, tmp_path, "run", *options)
    assert not (tmp_path / "run").exists()
