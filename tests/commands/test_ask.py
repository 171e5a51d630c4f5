"""A question about a real PDF, answered by a model behind a real server that computes what it says."""

import asyncio
import json
import shutil

import pytest
import typer
from typer.testing import CliRunner

from docagent_rl.commands.ask import ask_command
from docagent_rl.errors import UserError
from tests.chat_server import ChatServer, completion, serving
from tests.play.stage import PlayingModel

RECIPE = "vrag_rl_qwen2_5_vl_7b"


@pytest.fixture
def document(world, tmp_path):
    record = world.records[0]
    return shutil.copyfile(
        world.root / "synthetic" / "pdfs" / f"{record.doc_id}.pdf", tmp_path / "report.pdf"
    )


def server_for(records):
    model = PlayingModel(records)

    def compute(request):
        known = any(question in str(request["messages"]) for question in model.answers)
        return model(request) if known else completion("ready")

    return ChatServer(compute=compute)


async def asked(server, document, question, tmp_path, *more):
    app = typer.Typer()
    app.command()(ask_command)
    given = [document, question, "--recipe", RECIPE, "--store", tmp_path / "cache", "--set", "+profile=cpu",
             "--base-url", server.url, "--model", "m", *more]  # fmt: skip
    found = await asyncio.to_thread(CliRunner().invoke, app, list(map(str, given)), env={"COLUMNS": "200"})
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


@pytest.mark.slow
async def test_a_question_is_answered_with_the_pages_it_rests_on(world, document, tmp_path):
    record = world.records[0]
    async with serving(server_for(world.records)) as server:
        found = await asked(server, document, record.question, tmp_path, "--html", tmp_path / "page.html")
        assert found.exit_code == 0, found.output
        assert record.answers[0] in found.stdout
        assert "report, page " in found.stdout
        assert "(magnified: " in found.stdout
        assert "1. search" in found.stderr
        assert "2. crop" in found.stderr
        before = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
        told = await asked(server, document, record.question, tmp_path, "--json")
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/jpeg;base64,") >= 3
    data = json.loads(told.stdout)
    assert data["answer"] == record.answers[0]
    assert data["evidence"][0]["document"] == "report"
    assert data["evidence"][0]["regions"]
    assert [turn["action"].split()[0] for turn in data["turns"]] == ["search", "crop", "answer"]
    assert sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file()) == before


@pytest.mark.slow
async def test_without_an_answer_the_status_says_so(world, document, tmp_path):
    async with serving(ChatServer(compute=lambda _: completion("I do not know."))) as server:
        found = await asked(server, document, "Who?", tmp_path)
    assert found.exit_code == 1
    assert "No answer: the session ended without an answer (turn_limit)" in found.stdout


@pytest.mark.slow
async def test_other_files_are_left_alone(world, document, tmp_path):
    (tmp_path / "page.html").write_text("mine")
    async with serving(ChatServer()) as server:
        with pytest.raises(UserError, match=r"page\.html"):
            await asked(server, document, "Who?", tmp_path, "--html", tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "mine"
