"""The same questions over documents that say less and less."""

import asyncio
import io
import json

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from docagent_rl.commands.probe import probe_command
from docagent_rl.commands.rescore import rescore_command
from docagent_rl.records.record import write_jsonl
from docagent_rl.viewer.folder import ViewedRun
from docagent_rl.viewer.images import session_image
from docagent_rl.viewer.runs import OpenRun
from tests.chat_server import ChatServer, serving
from tests.commands.test_eval import RECIPE, ReadingModel

CONDITIONS = ["as_is", "blank", "text_layer", "no_evidence", "shuffled"]


def called(world, folder, *more):
    app = typer.Typer()
    app.command()(probe_command)
    given = ["--data", folder / "questions.jsonl", "--out", folder / "probe", *more, "--"]
    over = ["+profile=cpu", f"docagent.workspace={world.root}", "docagent.auto_demo=false"]
    arguments = [RECIPE, *given, *over, "data.max_prompt_length=6000"]
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})


def left(folder):
    found = json.loads((folder / "probe" / "probe.json").read_text())["left"]
    assert [each["condition"] for each in found] == CONDITIONS
    return {each["condition"]: each["value"] for each in found}


@pytest.fixture
def questions(world, tmp_path):
    write_jsonl(world.records[:6], tmp_path / "questions.jsonl")
    return world.records[:6]


@pytest.mark.slow
async def test_who_reads_loses_what_is_taken_away(world, questions, tmp_path):
    async with serving(ChatServer(compute=ReadingModel(questions))) as server:
        model = ["--agent", "rag_text", "--model", "m", "--base-url", server.url]
        found = await asyncio.to_thread(called, world, tmp_path, *model)
        assert found.exit_code == 0, found.output
        asked = len(server.requests)
        again = await asyncio.to_thread(called, world, tmp_path, *model)
    assert again.exit_code == 0
    assert len(server.requests) - asked <= len(CONDITIONS)  # signs of life: nothing is played again
    values = left(tmp_path)
    assert values["as_is"] == values["text_layer"] >= 0.5
    assert values["blank"] <= 1 / 6  # one answer is a number that the prompt happens to hold
    assert values["no_evidence"] < values["as_is"]
    assert values["shuffled"] < values["as_is"]
    assert "text_layer" in found.output


@pytest.mark.slow
def test_who_knows_the_answers_loses_nothing(world, questions, tmp_path):
    found = called(world, tmp_path, "--agent", "oracle")
    assert found.exit_code == 0, found.output
    assert left(tmp_path) == dict.fromkeys(CONDITIONS, 1.0)
    for condition in CONDITIONS:
        manifest = json.loads((tmp_path / "probe" / condition / "run.json").read_text())
        shown = manifest["config"]["docagent"]["shown_store"]
        assert (shown is None) == (condition == "as_is")


@pytest.mark.slow
def test_the_viewer_shows_what_was_shown(world, questions, tmp_path):
    called(world, tmp_path, "--agent", "oracle", "--condition", "blank")
    extremes = {}
    for condition in ("as_is", "blank"):
        run = OpenRun(0, condition, ViewedRun(tmp_path / "probe" / condition))
        session = json.loads(next(iter((run.folder.path / "sessions.jsonl").open())))
        content, _ = session_image(session, 0, run.store)
        extremes[condition] = Image.open(io.BytesIO(content)).convert("L").getextrema()
        assert run.searched.path == world.root / "store"
    assert extremes["blank"] == (255, 255)
    assert extremes["as_is"][0] < 128


@pytest.mark.slow
def test_an_evaluation_is_paid_again_and_again(world, questions, tmp_path):
    called(world, tmp_path, "--agent", "oracle", "--condition", "blank")
    out = tmp_path / "again"
    for _ in range(2):  # what the first time left is its own
        rescore_command(tmp_path / "probe" / "as_is", out=out, at_a_time=4)
    found = json.loads((out / "rescore.json").read_text())
    assert found["same"] == 1.0
    assert found["files"] == [path.name for path in (out / "trajectories").iterdir()]
    first, second = (ViewedRun(each) for each in (tmp_path / "probe" / "as_is", out))
    assert first.same_sessions(second)
    assert not first.same_sessions(ViewedRun(tmp_path / "probe" / "blank"))


def test_no_model_is_one_error(world, questions, tmp_path):
    found = called(world, tmp_path)
    assert "name the model that plays" in str(found.exception)
