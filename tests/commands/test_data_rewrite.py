"""The command that has questions name their page, with a model behind a real server."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.data_rewrite import rewrite_command
from docagent_rl.samples.parquet import read_samples
from docagent_rl.samples.sample import write_jsonl
from tests.chat_server import ChatServer, threaded
from tests.commands.conftest import called
from tests.lab.eval.scoring.trajectories import question


def label(request):
    if "date" in str(request["messages"][-1]).partition("The question:")[2]:
        return '{"label": 1}'
    return '{"label": 0}'


def test_questions_are_rewritten_once_and_counted(tmp_path):
    asked = [question(0, question="What is the date?"), question(1), question(2, evidence_pages=())]
    write_jsonl(asked, tmp_path / "q.jsonl")
    out = tmp_path / "rewritten.jsonl"
    with threaded(ChatServer(compute=label)) as server:
        given = (tmp_path / "q.jsonl", "--out", out, "--base-url", server.url, "--model", "m")
        said = " ".join(called(rewrite_command, *given).output.split())
        sent = len(server.requests)
        again = called(rewrite_command, *given).output
        # one more request, for whether the server answers
        assert len(server.requests) == sent + 1
    assert "rewritten (label 1) │ 1" in said
    assert "no gold page │ 1" in said
    assert "unchanged" in again
    questions = [sample.question for sample in read_samples(out)]
    assert questions == ["In page 3, what is the date?", asked[1].question, asked[2].question]


def test_an_even_number_of_votes_is_refused(tmp_path):
    write_jsonl([question()], tmp_path / "q.jsonl")
    given = (tmp_path / "q.jsonl", "--out", tmp_path / "o.jsonl", "--votes", 2)
    with pytest.raises(UserError, match="majority"):
        called(rewrite_command, *given, "--base-url", "http://127.0.0.1:1/v1", "--model", "m")
