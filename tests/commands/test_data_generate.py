from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest
import yaml
from typer.testing import CliRunner

from docagent_rl.cli import app
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.records.questions import read_questions
from tests.chat_server import completion
from tests.generate.conftest import reports, server, sheets  # noqa: F401  fixtures
from tests.generate.reading_model import model_server, reply_to, write_pdf

KINDS = [
    {"kind": "single_page", "per_document": 4, "questions": 2, "difficulty": "easy"},
    {"kind": "multi_page", "per_document": 2},
    {"kind": "table"},
    {"kind": "page_index"},
    {"kind": "unanswerable", "difficulty": "hard"},
]


def arguments(store, out, server, *more) -> list[str]:  # noqa: F811
    config = out.parent / "kinds.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(yaml.safe_dump({"kinds": KINDS}))
    command = [sys.executable, "-m", "docagent_rl.cli", "data", "generate", "--store", str(store.path)]
    where = [] if server is None else ["--base-url", server.url, "--model", "m", "--config", str(config)]
    return [*command, "--out", str(out), *where, *map(str, more)]


@dataclass
class Done:
    """What a command in this process left."""

    returncode: int
    stdout: str
    stderr: str


def docagent(*more) -> Done:
    result = CliRunner().invoke(app, list(map(str, more)), env={"COLUMNS": "200"})
    if isinstance(result.exception, UserError | InfrastructureError):
        # what `cli.main` makes of it
        return Done(2, result.stdout, f"{result.stderr}{result.exception}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def run(store, out, server, *more) -> Done:  # noqa: F811
    return docagent(*arguments(store, out, server, *more)[3:])


@pytest.mark.slow
def test_killed_anywhere_the_same_command_makes_the_same_files(reports, server, tmp_path):  # noqa: F811
    few = ("--doc", "beta", "--doc", "alpha")
    whole = run(reports, tmp_path / "whole" / "q.jsonl", server, *few)
    assert whole.returncode == 0, whole.stderr
    needed = len(server.requests)
    out, rng, kills = tmp_path / "cut" / "q.jsonl", random.Random(7), 0
    server.slow_s = 0.02
    for kind in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        before = len(server.requests)
        process = subprocess.Popen(
            arguments(reports, out, server, *few, "--concurrency", 4),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until = before + rng.randint(5, needed // 4)
        while len(server.requests) < until and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(kind)
        _, told = process.communicate(timeout=60)
        kills += process.returncode != 0
        assert not out.exists()
        if kind is signal.SIGINT:
            assert process.returncode == 130
            assert "The same command goes on from here" in told
            assert "Traceback" not in told
    assert kills == 3
    server.slow_s = 0.0
    done = run(reports, out, server, *few)
    assert done.returncode == 0, done.stderr
    for name in ("q.jsonl", "q.jsonl.funnel.json"):
        assert (out.parent / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (out.parent / "q.partial.jsonl").exists()
    # what was in flight when it was killed is all that was asked twice, beside four signs of life
    assert needed <= len(server.requests) - needed <= needed + 3 * 4 + 4


@pytest.mark.slow
def test_a_budget_ends_a_run_and_a_larger_one_goes_on(reports, server, tmp_path):  # noqa: F811
    out = tmp_path / "q.jsonl"
    # one at a time, so that some are done when the money is gone: at once, all may be half done
    prices = ("--price-in", 1, "--price-out", 10, "--concurrency", 1)
    cut = run(reports, out, server, *prices, "--max-cost", "0.05", "--reply-tokens", 200)
    assert cut.returncode == 2
    assert "the budget is used up" in cut.stderr
    assert "Left undone:" in cut.stderr
    assert "requests for questions" in cut.stderr
    assert not out.exists()
    partial = read_questions(tmp_path / "q.partial.jsonl")
    done = run(reports, out, server, *prices, "--max-cost", "5", "--reply-tokens", 200)
    assert done.returncode == 0, done.stderr
    made = {record.question_id: record for record in read_questions(out)}
    assert all(made[record.question_id] == record for record in partial)
    assert not (tmp_path / "q.partial.jsonl").exists()


@pytest.mark.slow
def test_questions_are_taken_by_the_other_commands(reports, server, tmp_path):  # noqa: F811
    out = tmp_path / "q.jsonl"
    made = run(reports, out, server)
    assert made.returncode == 0, made.stderr
    assert "From requests to questions" in made.stdout
    assert "Models asked" in made.stderr
    again = run(reports, out, server)
    assert again.returncode == 0, again.stderr
    checked = docagent("data", "validate", out, "--store", reports.path)
    assert checked.returncode == 0, checked.stderr
    converted = docagent(
        "data",
        "convert",
        out,
        "--store",
        reports.path,
        "--out",
        tmp_path / "data",
        "--split",
        "0.3",
        "--by",
        "document",
    )
    assert converted.returncode == 0, converted.stderr
    other = run(reports, out, server, "--seed", 5)
    assert other.returncode == 2
    assert "made by other settings" in other.stderr


def test_a_dry_run_asks_nothing(reports, server, tmp_path):  # noqa: F811
    out = tmp_path / "q.jsonl"
    shown = run(reports, out, server, "--dry-run", "--price-in", 2, "--price-out", 8)
    assert shown.returncode == 0, shown.stderr
    assert server.requests == []
    assert [path.name for path in tmp_path.iterdir()] == ["kinds.yaml"]
    for told in ("request for multi_page", "write questions", "closed book", "compare answers", "USD"):
        assert told in shown.stdout
    assert "You write questions that test" in shown.stdout


def test_a_dry_run_tells_enough(reports, server, tmp_path):  # noqa: F811
    from docagent_rl.generate.forecast import forecast
    from tests.generate.test_generation import generation, play

    run = generation(reports, server, tmp_path)
    expected = forecast(run)
    assert expected.cached == 0
    play(run)
    spent = run.model.ledger.accounts["m"]
    # replies that cannot be read are asked for again, which no forecast knows
    assert spent.requests <= expected.total.requests * 1.1
    assert spent.requests >= expected.total.requests * 0.2
    assert spent.prompt_tokens <= expected.total.prompt_tokens * 1.2
    assert forecast(run).cached == len(run.slots)


def test_templates_need_no_model(reports, tmp_path):  # noqa: F811
    out = tmp_path / "q.jsonl"
    made = run(reports, out, None, "--limit", 6)
    assert made.returncode == 0, made.stderr
    records = read_questions(out)
    assert {record.extra["provenance"]["model"] for record in records} == {None}
    assert docagent("data", "validate", out, "--store", reports.path).returncode == 0


def test_templates_keep_to_kinds_and_to_what_is_excluded(reports, tmp_path):  # noqa: F811
    first, second, config = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "few.yaml"
    config.write_text("kinds: [{kind: single_page, per_document: 2}]")
    (report,) = set(reports.doc_ids()) - {"alpha", "beta", "gamma", "delta"}
    options = ("--doc", report, "--config", config)
    assert run(reports, first, None, *options).returncode == 0
    assert run(reports, second, None, *options, "--seed", 1, "--exclude", first).returncode == 0
    known, made = read_questions(first), read_questions(second)
    assert {record.extra["kind"] for record in (*known, *made)} == {"single_page"}
    assert (len(known), len(made)) == (2, 2)
    assert not {record.question for record in known} & {record.question for record in made}
    config.write_text("kinds: [{kind: unanswerable, per_document: 0}]")
    none = run(reports, tmp_path / "c.jsonl", None, *options)
    assert none.returncode == 2
    assert "--config asks for other kinds" in none.stderr


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--mode", "write"), "--mode write needs a model: give --base-url and --model"),
        (("--mode", "alden"), "--from belongs to --mode alden"),
        (("--doc", "alpah"), "did you mean 'alpha'"),
        (("--max-cost", "1", "--base-url", "http://127.0.0.1:1/v1", "--model", "m"), "--price-in"),
        (("--base-url", "http://127.0.0.1:1/v1", "--model", "m"), "does not answer"),
        (("--base-url", "http://127.0.0.1:1/v1"), "needs a model: give --base-url and --model"),
        (("--judge-model", "j"), "--judge-model says nothing to --mode outline"),
        (("--view", "image"), "--view says nothing to --mode outline"),
        (("--limit", "3", "--base-url", "http://127.0.0.1:1/v1", "--model", "m"), "--limit says nothing to"),
    ],
)
def test_what_is_wrong_is_told(reports, tmp_path, more, told):  # noqa: F811
    done = run(reports, tmp_path / "q.jsonl", None, *more)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_scanned_documents_need_ocr_or_a_model_that_sees(sheets, tmp_path):  # noqa: F811
    done = run(sheets, tmp_path / "q.jsonl", None)
    assert done.returncode == 2
    assert "--ocr" in done.stderr
    assert "--view image" in done.stderr


def test_labels_are_asked_for_through_the_command(reports, server, tmp_path):  # noqa: F811
    lines = [
        {"doc_id": "alpha", "question": "What stands at the top of the sheet?", "answers": "x", "page": 4},
        {"doc_id": "alpha", "question": "Who runs the mill of Kantora?", "answers": "y", "page": 2},
    ]
    source = tmp_path / "asked.jsonl"
    source.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    options = ("--base-url", server.url, "--model", "m", "--mode", "alden", "--from", source)
    command = ("data", "generate", "--out", tmp_path / "q.jsonl", *options)
    dry = docagent(*command, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "What stands at the top of the sheet?" in dry.stdout
    assert server.requests == []
    done = docagent(*command, "--store", reports.path)
    assert done.returncode == 0, done.stderr
    made = [record.question for record in read_questions(tmp_path / "q.jsonl")]
    assert made == ["On page 4, what stands at the top of the sheet?", "Who runs the mill of Kantora?"]
    assert json.loads((tmp_path / "q.jsonl.funnel.json").read_text())["counts"]["rewritten"] == 1
    asked, kept = len(server.requests), (tmp_path / "q.jsonl").read_bytes()
    assert docagent(*command, "--store", reports.path).returncode == 0  # from the replies that are kept
    other = docagent(*command, "--store", reports.path, "--seed", 1)
    assert (other.returncode, len(server.requests)) == (2, asked)  # told before anything is paid for
    assert "other settings" in other.stderr
    assert docagent(*command, "--store", reports.path, "--seed", 1, "--force").returncode == 0
    assert len(server.requests) > asked
    assert (tmp_path / "q.jsonl").read_bytes() == kept
    source.write_text(json.dumps({**lines[0], "page": 400}) + "\n")
    refused = docagent(*command, "--store", reports.path)
    assert refused.returncode == 2
    assert "there is no page 400" in refused.stderr


@pytest.mark.slow
def test_a_long_document_is_asked_about_in_bounded_requests(tmp_path):
    from docagent_rl.documents import DocumentStore, RenderSettings
    from docagent_rl.documents.ingestion import ingest

    (tmp_path / "pdf").mkdir()
    write_pdf(tmp_path / "pdf" / "long.pdf", "long", 300)
    ingest(tmp_path / "pdf", tmp_path / "store", workers=1, settings=RenderSettings(dpi=36))
    with model_server() as server:  # noqa: F811
        done = run(DocumentStore(tmp_path / "store"), tmp_path / "q.jsonl", server)
    assert done.returncode == 0, done.stderr
    longest = max(len(json.dumps(request)) for request in server.requests)
    assert longest < 20_000
    assert len(read_questions(tmp_path / "q.jsonl")) >= 5


def test_a_run_that_keeps_nothing_says_why(reports, server, tmp_path):  # noqa: F811
    server.compute = lambda request: completion("" if len(request["messages"]) > 1 else "ready")
    out = tmp_path / "q.jsonl"
    done = run(reports, out, server, "--doc", "alpha")
    assert done.returncode == 2
    assert re.search(r"no question passed.*times unreadable reply: a reply without text", done.stderr)
    assert not out.exists()
    assert json.loads((tmp_path / "q.jsonl.funnel.json").read_text())["dropped"]


def test_a_server_that_fails_midway_loses_nothing(reports, server, tmp_path):  # noqa: F811
    out, kind = tmp_path / "q.jsonl", ("--doc", "alpha", "--doc", "beta")

    def failing(request: dict):
        return 503 if len(server.requests) > 40 else reply_to(request)

    server.compute = failing
    (tmp_path / "m.yaml").write_text("backoff_s: 0\n")
    cut = run(reports, out, server, *kind, "--endpoint", tmp_path / "m.yaml")
    assert cut.returncode == 2
    assert "HTTP 503" in cut.stderr
    server.compute = reply_to
    before = len(server.requests)
    done = run(reports, out, server, *kind)
    assert done.returncode == 0, done.stderr
    resumed = len(server.requests) - before
    fresh = tmp_path / "fresh" / "q.jsonl"
    assert run(reports, fresh, server, *kind).returncode == 0
    assert len(server.requests) - before - resumed >= resumed + 30
    assert fresh.read_bytes() == out.read_bytes()


def test_what_got_no_reply_is_asked_again_and_nothing_else_is_replaced(reports, server, tmp_path):  # noqa: F811
    out, kind, poison = tmp_path / "q.jsonl", ("--doc", "alpha", "--concurrency", 1), []

    def compute(request: dict):
        if not poison and "You write questions" in json.dumps(request["messages"][0]):
            poison.append(request["messages"])
        return 500 if request["messages"] in poison else reply_to(request)

    server.compute = compute
    (tmp_path / "m.yaml").write_text("backoff_s: 0\n")
    lacking = run(reports, out, server, *kind, "--endpoint", tmp_path / "m.yaml")
    assert lacking.returncode == 0, lacking.stderr
    assert "1 got no reply from the endpoint and were left out: the same command asks again" in lacking.stderr
    first = read_questions(out)
    server.compute = reply_to
    content = out.read_bytes()
    out.write_bytes(content + b"\n")
    asked = len(server.requests)
    changed = run(reports, out, server, *kind)
    assert (changed.returncode, len(server.requests)) == (2, asked)
    assert "was changed since it was made" in changed.stderr
    out.write_bytes(content)
    done = run(reports, out, server, *kind)
    assert done.returncode == 0, done.stderr
    assert "got no reply" not in done.stderr
    fresh = tmp_path / "fresh" / "q.jsonl"
    assert run(reports, fresh, server, *kind).returncode == 0
    assert fresh.read_bytes() == out.read_bytes()
    assert len(read_questions(out)) >= len(first)


def test_killed_between_its_two_files_the_same_command_goes_on(reports, server, tmp_path, monkeypatch):  # noqa: F811
    from docagent_rl.commands import data_generate

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "q.jsonl"
    with monkeypatch.context() as patched:
        patched.setattr(data_generate, "write_output", killed)
        assert run(reports, out, server, "--doc", "alpha").returncode == 130
    assert run(reports, out, server, "--doc", "alpha").returncode == 0
    assert read_questions(out)
    with monkeypatch.context() as patched:
        patched.setattr(data_generate, "atomic_write", killed)
        assert run(reports, out, server, "--doc", "beta", "--force").returncode == 130
    assert not out.exists()  # nobody's funnel lies beside it
    assert run(reports, out, server, "--doc", "beta").returncode == 0


def test_a_judge_of_its_own_compares_the_answers(reports, server, tmp_path):  # noqa: F811
    out = tmp_path / "q.jsonl"
    with model_server() as other:
        options = (
            "--doc",
            "alpha",
            "--judge-base-url",
            other.url,
            "--judge-model",
            "j",
            "--max-requests",
            500,
        )
        done = run(reports, out, server, *options)
    assert done.returncode == 0, done.stderr
    judged = ["You grade answers" in json.dumps(request["messages"]) for request in other.requests]
    # but for the sign of life
    assert sum(judged) == len(judged) - 1 > 0
    assert not any("You grade answers" in json.dumps(request["messages"]) for request in server.requests)
    assert {record.extra["provenance"]["judge"] for record in read_questions(out)} == {"j"}
    assert re.search(rf"│ j +│ +{len(judged)} ", done.stderr)
