# ruff: noqa: F811  fixtures are imported by their names
import json
import re

import pytest
import yaml

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.commands.data import app
from docagent_rl.endpoints.usage import message_tokens
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.validation import sample_notes
from tests.chat_server import completion
from tests.commands.conftest import called
from tests.lab.generate.conftest import reports, server, sheets  # noqa: F401  fixtures
from tests.lab.generate.reading_model import reply_to

KINDS = [
    {"kind": "single_page", "per_document": 2, "questions": 2, "difficulty": "easy"},
    {"kind": "multi_page"},
    {"kind": "table"},
    {"kind": "page_index"},
    {"kind": "unanswerable", "difficulty": "hard"},
]
NOWHERE = ("--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--endpoint", "m.yaml")


def run(store, out, server, *more, status=0):
    """Run the command on a store, with a model if there is a server."""
    config = out.parent / "kinds.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(yaml.safe_dump({"kinds": KINDS}))
    where = [] if server is None else ["--base-url", server.url, "--model", "m", "--config", config]
    return called(
        app, "generate", "--store", store.path, "--out", out, *where, *more, status=status
    )


def refused(told, *arguments):
    with pytest.raises((UserError, InfrastructureError), match=told):
        run(*arguments)


def like_whole(reports, server, out, *more):
    """Assert that the questions equal those of a run that was never interrupted."""
    whole = out.parent / "whole" / "q.jsonl"
    run(reports, whole, server, *more)
    for name in ("q.jsonl", "q.jsonl.funnel.json"):
        assert (out.parent / name).read_bytes() == (whole.parent / name).read_bytes()


def test_a_dry_run_asks_nothing_and_counts_what_a_run_asks_at_most(reports, server, tmp_path):
    priced = (
        "--doc",
        "alpha",
        "--doc",
        "beta",
        "--price-in",
        2,
        "--price-out",
        8,
        "--reply-tokens",
        200,
    )
    out = tmp_path / "q.jsonl"
    shown = run(reports, out, server, *priced, "--dry-run").stdout.replace(",", "")
    assert (server.requests, [path.name for path in tmp_path.iterdir()]) == ([], ["kinds.yaml"])
    documents, requests, questions, most, tokens, cost = map(float, re.findall(r"\d[\d.]*", shown))
    assert (documents, requests, questions) == (2, 20, 24)
    run(reports, out, server, *priced)
    assert requests < len(server.requests) <= most
    assert sum(message_tokens(asked["messages"]) + 200 for asked in server.requests) <= tokens
    assert tokens * 2e-6 < cost < tokens * 8e-6
    refused("--dry-run", reports, out, None, "--dry-run")


def test_templates_keep_to_kinds(reports, tmp_path):
    out, config = tmp_path / "a.jsonl", tmp_path / "few.yaml"
    config.write_text("kinds: [{kind: single_page, per_document: 2}]")
    (report,) = set(reports.doc_ids()) - {"alpha", "beta", "gamma", "delta"}
    options = ("--doc", report, "--config", config)
    run(reports, out, None, *options)
    called(app, "validate", out, "--store", reports.path)
    made = read_questions(out)
    made_by = [(r.extra["kind"], r.extra["provenance"]["model"]) for r in made]
    assert made_by == [("single_page", None)] * 2
    assert [sample_notes(sample) for sample in made if sample_notes(sample)] == []
    config.write_text("kinds: [{kind: unanswerable, per_document: 0}]")
    refused("--config", reports, tmp_path / "c.jsonl", None, *options)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--exclude", "q.jsonl"), "--base-url"),
        (("--doc", "alpah"), "'alpha'"),
        (("--max-cost", "1", *NOWHERE), "--price-in"),
        (NOWHERE, "http://127.0.0.1:1/v1"),
        (("--judge-model", "j"), "--judge-model"),
        (("--limit", "3", *NOWHERE), "--limit"),
    ],
)
def test_what_is_wrong_is_told(reports, tmp_path, monkeypatch, more, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.yaml").write_text("backoff_s: 0\n")
    refused(told, reports, tmp_path / "q.jsonl", None, *more)


def test_runs_that_keep_nothing_say_why(reports, sheets, server, tmp_path):
    out = tmp_path / "q.jsonl"
    refused("--view image", sheets, out, None)
    server.compute = lambda request: completion("" if len(request["messages"]) > 1 else "ready")
    refused("unreadable", reports, out, server, "--doc", "alpha")
    assert not out.exists()
    assert json.loads((tmp_path / "q.jsonl.funnel.json").read_text())["dropped"]


def test_what_got_no_reply_is_asked_again_and_nothing_else_is_replaced(reports, server, tmp_path):
    out, kind, poison = tmp_path / "q.jsonl", ("--doc", "alpha", "--concurrency", 1), []

    def compute(request: dict):
        if not poison and "You write questions" in json.dumps(request["messages"][0]):
            poison.append(request["messages"])
        return 500 if request["messages"] in poison else reply_to(request)

    server.compute = compute
    (tmp_path / "m.yaml").write_text("backoff_s: 0\n")
    assert (
        "1 got no reply"
        in run(reports, out, server, *kind, "--endpoint", tmp_path / "m.yaml").stderr
    )
    server.compute, content = reply_to, out.read_bytes()
    out.write_bytes(content + b"\n")
    asked = len(server.requests)
    refused(r"q\.jsonl", reports, out, server, *kind)
    assert len(server.requests) == asked
    out.write_bytes(content)
    assert "got no reply" not in run(reports, out, server, *kind).stderr
    like_whole(reports, server, out, *kind)
