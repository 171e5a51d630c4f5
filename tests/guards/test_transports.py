"""No peer at the other end of a connection, a file or a folder takes more than its share, or more
than one.
"""

import asyncio
import gzip
import json
import re
import unicodedata
from contextlib import suppress

import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.section import read_yaml
from docagent_rl.checks.machine import hold_run_folder
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints import connections, serving
from docagent_rl.retrieval.base import SearchArguments, ServiceFailedError
from docagent_rl.retrieval.pooling_server import PoolingServer
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.host import SearchHost
from docagent_rl.samples.questions import read_questions, scan_questions
from docagent_rl.samples.validation import validate_file
from docagent_rl.training.settings.trackers import access_problems
from tests.base.test_folder_lock import starts, tried  # noqa: F401  a fixture
from tests.chat_server import RawServer, completion
from tests.documents.conftest import write_pdf
from tests.documents.test_page_tree import miscounted
from tests.endpoints.conftest import client, said
from tests.endpoints.test_connections import POST, WHOLE, connected, ended, served
from tests.endpoints.test_remote_model import of_openais_models_that_think
from tests.memory import within

ROW = {"doc_id": "report.pdf", "question": "What?", "answers": "41"}


@pytest.fixture
def raw():
    with RawServer() as server:
        yield server


# -- clients


@pytest.mark.parametrize("name", ["judge", "planner"])
def test_a_small_reply_does_not_unpack_to_much(raw, name):
    raw.respond(gzip.compress(bytes(300 << 20), 1), content_encoding="gzip")
    with within(64 << 20), pytest.raises(InfrastructureError, match="compressed"):
        asyncio.run(said(raw.url, name=name, attempts=1))
    with within(64 << 20), pytest.raises(ServiceFailedError, match="compressed"):
        PoolingServer(raw.url, named="encoder")


def test_a_large_reply_is_cut_off(raw):
    raw.respond(bytes(64 << 20))
    with within(128 << 20), pytest.raises(InfrastructureError, match="longer than 8 MiB"):
        asyncio.run(said(raw.url, attempts=1))


def test_a_reply_of_a_million_faults_is_one_fault(raw):
    raw.respond(b'{"choices":[' + b"1," * (2 << 20) + b"1]}")
    with within(128 << 20), pytest.raises(InfrastructureError, match="not a chat completion"):
        asyncio.run(said(raw.url, attempts=1))


def test_a_search_of_a_million_faults_is_one_fault():
    with within(256 << 20), pytest.raises(ValueError, match=r"exclude\.0"):
        wire.read_request(b'{"queries":[],"exclude":[' + b"1," * (2 << 20) + b"1]}")


def test_no_proxy_of_the_environment_is_between_this_machine_and_itself(raw, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    raw.respond(json.dumps(completion("good")).encode())
    assert asyncio.run(said(raw.url, attempts=1)) == "good"


async def test_both_keys_of_a_model_that_thinks_are_named_at_once(chat):
    chat.compute = of_openais_models_that_think
    asked = client(chat.url, "judge")
    with pytest.raises(UserError, match=r"max_completion_tokens: 0, temperature: 1"):
        await asked.check()
    await asked.aclose()


# -- servers


async def test_a_head_that_never_ends_ends_its_connection(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.05)
    async with served() as port, asyncio.timeout(60), connected(port) as (reader, writer):
        writer.write(WHOLE[:-2])
        assert await ended(reader) == b""


async def test_a_body_that_never_ends_ends_its_connection(monkeypatch):
    monkeypatch.setattr(serving, "BODY_S", 0.05)
    async with served() as port, asyncio.timeout(60), connected(port) as (reader, writer):
        writer.write(POST + b"{")
        assert b" 408 " in await ended(reader)


async def test_those_who_ask_nothing_shut_nobody_out(monkeypatch):
    monkeypatch.setattr(connections, "most_connections", lambda: 4)
    async with served() as port, asyncio.timeout(60):
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        for _, writer in slow:
            with suppress(ConnectionError):
                writer.write(WHOLE[:-2])
        async with connected(port) as (reader, writer):
            writer.write(WHOLE)
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        for _, writer in slow:
            writer.transport.abort()


async def test_health_answers_while_a_large_batch_is_searched():
    turns = []

    class Endless:
        def search(self, queries, **_):
            turns.append(list(queries))
            return [[] for _ in queries]

    host = SearchHost(Endless(), threads=1, max_waiting=256)
    batch = asyncio.create_task(host.search(SearchArguments(("word " * 6000,) * 256)))
    while not turns:
        await asyncio.sleep(0)
    await asyncio.gather(*(host.probe() for _ in range(50)))
    assert len(await batch) == 256
    assert max(map(len, turns)) <= 16


# -- folders


def test_of_starts_in_one_folder_at_one_moment_one_passes(starts, tmp_path):  # noqa: F811
    for number in range(5):
        assert tried(starts, tmp_path / str(number)).count("passed") == 1


def test_who_holds_the_folder_of_a_run_is_told(starts, tmp_path):  # noqa: F811
    assert tried(starts[:1], tmp_path / "run") == ["passed"]
    config = {"docagent": {"run_dir": str(tmp_path / "run")}}
    config["trainer"] = {"default_local_dir": str(tmp_path / "run" / "checkpoints")}
    with pytest.raises(
        UserError, match=rf"docagent\.run_dir=.*process {starts[0].pid} on '.*' \(since 20"
    ):
        hold_run_folder(OmegaConf.create(config))


# -- files


def test_a_pdf_that_miscounts_its_pages_is_no_success(tmp_path):
    miscounted(tmp_path / "in" / "a.pdf", write_pdf, 30, 1)
    (failure,) = ingest(tmp_path / "in", tmp_path / "store", workers=1).failed
    assert "contains 30" in failure.reason


@pytest.mark.parametrize("question", ["\x00", "\u200b", " ", "word " * (1 << 20)])
def test_a_question_that_nobody_can_read_is_refused_by_name(tmp_path, question):
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({**ROW, "question": question}))
    (problem,) = validate_file(file).problems
    assert problem.startswith(f"{file}:1: ")
    assert re.search(r"field 'question'|characters", problem)


def test_a_key_that_stands_twice_is_refused_by_name(tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps(ROW)[:-1] + ', "answers": "42"}')
    assert "'answers' occurs twice" in scan_questions(file).problems[0]
    file.write_text("model: a\nmodel: b\n")
    with pytest.raises(UserError, match="'model' occurs twice"):
        read_yaml(file, "model: a")
    with pytest.raises(ValueError, match="'queries' occurs twice"):
        wire.read_request(b'{"queries": ["a"], "queries": ["b"]}')


def test_a_document_is_found_by_a_name_that_looks_the_same(tmp_path):
    whole, apart = (unicodedata.normalize(form, "Übersicht") for form in ("NFC", "NFD"))
    write_pdf(tmp_path / "in" / f"{apart}.pdf", ["alpha"])
    ingest(tmp_path / "in", tmp_path / "store", workers=1)
    (tmp_path / "questions.jsonl").write_text(json.dumps({**ROW, "doc_id": whole}))
    assert (
        validate_file(
            tmp_path / "questions.jsonl", store=DocumentStore(tmp_path / "store")
        ).problems
        == []
    )


def test_a_table_is_not_taken_for_questions(tmp_path):
    (tmp_path / "questions.csv").write_text("doc_id,question\n")
    with pytest.raises(UserError, match=r"\.csv files are not supported.*python -c"):
        read_questions(tmp_path / "questions.csv")


# -- first contact


def test_a_tracker_without_a_key_is_told_before_models_load(monkeypatch, tmp_path):
    for name in (
        "WANDB_API_KEY",
        "WANDB_MODE",
        "WANDB_IDENTITY_TOKEN_FILE",
        "NETRC",
        "WANDB_CONFIG_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    config = OmegaConf.create({"trainer": {"logger": ["console", "wandb"]}})
    (problem,) = access_problems(config)
    assert "WANDB_API_KEY" in problem
    assert "WANDB_MODE=offline" in problem
