"""Runs that are scored: by rules, by models, by two of them, stopped and gone on with."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import sys
import textwrap
import time
import weakref
from dataclasses import fields
from pathlib import Path

import pytest

from docagent_rl.endpoints.chat_client import ChatEndpoint
from docagent_rl.endpoints.json_cache import JsonCache
from docagent_rl.endpoints.price import Price
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.eval.metrics.prompt_files import AnswerJudge
from docagent_rl.eval.metrics.sessions import SessionUse
from docagent_rl.eval.report.build import ReportSettings, benchmark
from docagent_rl.eval.scoring.asking import ModelPanel
from docagent_rl.eval.scoring.experts import Author
from docagent_rl.eval.scoring.run import ScoringSettings, model_scores, ordered, score_run, with_costs
from docagent_rl.eval.scoring.scored import read_scores
from docagent_rl.play.run_folder import RunFolder
from docagent_rl.rollout.trajectory import Trajectory
from tests.chat_server import ChatServer, serving
from tests.eval.scoring.sessions import answered, masked, question, run_of, session, turn


def mixed(number=12, dataset="mmlongbench"):
    """Sessions, right ones and wrong ones, some without an answer or not played."""
    for n in range(number):
        record = question(n, dataset=dataset, answer_format="Str", extra={"gold": "Lake Ontario"})
        if n % 6 == 4:
            yield session(record, turn("search", pages=(3,)))
        elif n % 6 == 5:
            yield masked(record, "infrastructure")
        else:
            yield answered(record, "Lake Ontario" if n % 2 else f"Lake Erie {n}", system="alden")


def verdict(request) -> str:
    """A judge that reads what it is asked; extractors are told from judges by their prompt."""
    text = request["messages"][-1]["content"] if len(request["messages"]) < 3 else str(request["messages"])
    whole = str(request["messages"])
    pieces = re.findall(r"----- begin \w+ -----(?:\n|\\n)(.*?)(?:\n|\\n)----- end", whole, re.S)
    if "label tags" in text:
        return f"<label>{'Correct' if pieces[-1] in pieces[1:-1] else 'Incorrect'}</label>"
    return f"Extracted answer: {pieces[-1]}\nAnswer format: String"


def panel(url, cache=None, model="judge-1"):
    endpoint = ChatEndpoint(url, model, attempts=2, backoff_s=0, timeout_s=60, deadline_s=120)
    return ModelPanel(
        RemoteModel(endpoint, "judge", cache=cache and JsonCache(cache, "judge cache", forever=True))
    )


async def test_without_an_endpoint_the_rules_say_so_and_a_masked_session_is_wrong(tmp_path):
    folder = run_of(tmp_path, mixed())
    found = await score_run(folder, ScoringSettings())
    assert [(each.question_id, each.session) for each in found] == [(f"q{n}", 0) for n in range(12)]
    by = {expert["by"] for each in found for expert in each.experts.values()}
    assert by == {Author.RULE.value, Author.NOBODY.value}
    assert [each.values["score"] for each in found[:6]] == [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert [each.values["rule"] for each in found[:6]] == [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    gone = found[5]
    assert (gone.status, gone.reason) == ("masked", "infrastructure")
    assert (gone.values["exact"], gone.values["finished"]) == (0.0, 0.0)
    # it took part in nothing, so no mean of these may count it
    assert not {"turns", "page_recall", "unique_pages", "seconds"} & set(gone.values)


@pytest.mark.parametrize(
    ("role", "by", "ruled"),
    [
        ({"backend": "embedded"}, Author.RULE.value, True),
        ({"backend": "openai", "model": "Qwen/Q"}, "Qwen/Q", False),
    ],
)
async def test_a_short_answer_of_the_system_is_by_who_gave_it(tmp_path, role, by, ruled):
    record = question(dataset="mmlongbench", answer_format="Int", answers=("41",), extra={"gold": "41"})
    end = turn("finish", outcome={"answer": "It is 41, I think.", "extracted": "41"})
    folder = run_of(
        tmp_path, [session(record, end, system="mm_doc_r1")], docagent={"roles": {"extractor": role}}
    )
    (found,) = await score_run(folder, ScoringSettings())
    assert found.experts["mmlongbench_doc_extractor"]["by"] == by
    assert found.values["score"] == 1.0
    numbers = benchmark("mmlongbench", [found], ReportSettings(draws=5))
    assert numbers.number("acc").ruled is ruled


async def test_pages_that_nobody_wrote_down_are_not_taken_for_none(tmp_path):
    silent = session(question(), turn("answer", "Lake Ontario"), metrics={"pages_seen": 4.0})
    blind = session(question(1), turn("answer", "Lake Ontario"), metrics={"pages_seen": 0.0})
    found = await score_run(run_of(tmp_path, [silent, blind]), ScoringSettings())
    assert "page_recall" not in found[0].values
    assert found[1].values["page_recall"] == 0.0


async def test_a_question_with_a_hidden_answer_is_not_scored(tmp_path):
    record = question(answers=(), answerable=None)
    (found,) = await score_run(run_of(tmp_path, [answered(record, "x")]), ScoringSettings())
    assert not found.scored
    assert found.values["page_recall"] == 1.0
    assert not {"rule", "exact"} & set(found.values)


async def test_a_model_extracts_and_judges_and_the_rule_is_compared_with_it(tmp_path):
    async with serving(ChatServer(compute=verdict)) as server:
        found = await score_run(run_of(tmp_path, mixed()), ScoringSettings(panel(server.url)))
    assert found[1].experts["mmlongbench_doc_extractor"]["by"] == "judge-1"
    assert found[1].experts["alden_judge"] == {"value": "Correct", "by": "judge-1", "failed": False}
    assert found[0].experts["alden_judge"]["value"] == "Incorrect"
    assert found[1].second["alden_judge"] == {"value": "Correct", "by": Author.RULE.value, "failed": False}
    assert found[1].values["correct"] == 1.0
    # no answer: nobody was asked
    unasked = {"value": None, "by": Author.NOBODY.value, "failed": False}
    assert found[4].experts["mmlongbench_doc_extractor"] == unasked


async def test_a_second_judge_is_asked_by_itself(tmp_path):
    async with (
        serving(ChatServer(compute=verdict)) as one,
        serving(ChatServer(compute=lambda request: "<label>Tie/Unclear</label>")) as two,
    ):
        settings = ScoringSettings(panel(one.url), panel(two.url, model="judge-2"))
        found = await score_run(run_of(tmp_path, mixed()), settings)
    assert found[1].second["alden_judge"] == {"value": "Tie/Unclear", "by": "judge-2", "failed": False}
    assert "mmlongbench_doc_extractor" not in found[1].second


async def test_a_reply_that_cannot_be_read_is_a_failure_of_the_judge_and_wrong(tmp_path):
    def odd(request):
        return "no form at all" if "label tags" in str(request["messages"]) else verdict(request)

    async with serving(ChatServer(compute=odd)) as server:
        found = await score_run(run_of(tmp_path, mixed()), ScoringSettings(panel(server.url)))
    assert found[1].experts["alden_judge"] == {"value": None, "by": "judge-1", "failed": True}
    assert found[1].values["correct"] == 0.0
    assert found[1].values["score"] == 1.0


def cut_off(text):
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "length"}
    return {"choices": [choice]}


@pytest.mark.parametrize(
    ("text", "grade"),
    [("4 because of what it says about", 4.0), ("<think>Is it 4 or", 0.0), ("It is as good as", 0.0)],
)
async def test_a_grade_counts_whose_reason_was_cut_off(tmp_path, text, grade):
    folder = run_of(tmp_path, [answered(question(0, dataset="vidoseek"), "Lake Ontario", system="rag_text")])
    async with serving(ChatServer(compute=lambda _: cut_off(text))) as server:
        (found,) = await score_run(folder, ScoringSettings(panel(server.url)))
    assert found.values["grade"] == grade
    assert found.experts["vidoseek_judge"]["failed"] is (grade == 0.0)


@pytest.mark.parametrize(
    ("reply", "unidoc", "vrag"),
    [("<judge>TRUE</judge>", True, None), ("No idea.", False, None), ("<judge>True</judge>", True, True)],
)
async def test_a_verdict_is_read_by_the_rule_of_the_system_that_played(tmp_path, reply, unidoc, vrag):
    sessions = [
        answered(question(0), "Lake Ontario", system="unidoc_rl"),
        answered(question(1), "Lake Erie", system="vrag_rl"),
    ]
    async with serving(ChatServer(compute=lambda _: reply)) as server:
        found = await score_run(run_of(tmp_path, sessions), ScoringSettings(panel(server.url)))
    for session_, verdict_ in zip(found, (unidoc, vrag), strict=True):
        told = {"value": verdict_, "by": "judge-1", "failed": verdict_ is None}
        assert session_.experts["true_false_judge"] == told
        assert session_.values["judged"] == float(verdict_ is True)
    # VRAG-RL's judge is asked again, UniDoc-RL's never
    assert len(server.requests) == 2 + (vrag is None)


async def test_a_models_scores_are_found_while_they_are_of_the_sessions(tmp_path):
    folder = run_of(tmp_path, mixed())
    await score_run(folder, ScoringSettings())
    assert model_scores(folder) is None  # the rule judge's
    async with serving(ChatServer(compute=verdict)) as server:
        judged = await score_run(folder, ScoringSettings(panel(server.url), experts=frozenset(AnswerJudge)))
    assert model_scores(folder) == ("judge-1", judged)
    price = Price(1.0, 2.0)
    priced = with_costs(folder, judged, price)
    assert [each.experts for each in priced] == [each.experts for each in judged]
    assert judged[0].values["cost"] is None
    assert priced[0].values["cost"] == pytest.approx(price.of(SessionUse.of(next(iter(folder.sessions())))))
    assert "cost" not in priced[5].values  # it was not played
    assert with_costs(folder, judged, None) == judged
    with folder.writing() as writer:
        writer.add(answered(question(99), "Lake Ontario"))
    assert model_scores(folder) is None


async def test_a_dead_judge_ends_the_run_and_no_scores_are_left(tmp_path):
    async with serving(ChatServer(compute=lambda request: 500)) as server:
        folder = run_of(tmp_path, mixed())
        with pytest.raises(InfrastructureError, match="judge-1"):
            await score_run(folder, ScoringSettings(panel(server.url)))
    assert not (tmp_path / "scores.jsonl").exists()


async def test_scores_are_read_again_only_while_they_hold(tmp_path):
    folder = run_of(tmp_path, mixed())
    heard = []
    first = await score_run(folder, ScoringSettings(), heard.append)
    assert len(heard) == 12
    again = []
    assert await score_run(folder, ScoringSettings(), again.append) == first
    assert again == []
    with folder.writing() as writer:
        writer.add(answered(question(99), "Lake Ontario"))
    assert len(await score_run(folder, ScoringSettings(), again.append)) == 13
    again.clear()
    priced = await score_run(folder, ScoringSettings(price=Price(1.0, 2.0)), again.append)
    assert len(again) == 13
    assert priced[0].values["cost"] == pytest.approx((10 + 12 + 2 * 4) / 1e6, rel=0.5)


async def test_the_last_session_of_a_key_counts_and_a_torn_one_is_told(tmp_path):
    first, second = masked(question(0), "infrastructure"), answered(question(0), "Lake Ontario")
    folder = run_of(tmp_path, [first, answered(question(1), "x"), second])
    found = await score_run(folder, ScoringSettings())
    assert [(each.question_id, each.values["exact"]) for each in found] == [("q0", 1.0), ("q1", 0.0)]
    folder.sessions_file.write_bytes(folder.sessions_file.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"sessions\.jsonl"):
        await score_run(folder, ScoringSettings())


async def test_a_folder_without_sessions_is_refused(tmp_path):
    folder = run_of(tmp_path / "a", [])
    folder.sessions_file.unlink()
    with pytest.raises(UserError, match=r"sessions\.jsonl"):
        await score_run(folder, ScoringSettings())


async def test_only_sessions_with_a_search_go_to_the_judge_of_vrag_rl(tmp_path):
    sessions = [
        answered(question(0, dataset="vrag"), "Lake Ontario", system="vrag_rl"),
        session(question(1, dataset="vrag"), turn("answer", "Lake Ontario"), system="vrag_rl"),
        session(question(2, dataset="vrag"), turn("answer", "Lake Ontario"), system="unidoc_rl"),
    ]
    found = await score_run(run_of(tmp_path, sessions), ScoringSettings())
    assert [each.values["judged"] for each in found] == [1.0, 0.0, 1.0]
    assert found[1].experts["true_false_judge"]["by"] == Author.NOBODY.value


async def test_results_keep_their_order_and_a_failure_stops_the_rest():
    rng, started = random.Random(0), []

    async def work(number):
        started.append(number)
        await asyncio.sleep(rng.random() / 500)
        if number == 30:
            raise UserError("thirty")
        return number

    assert [each async for each in ordered(range(20), work, 5)] == list(range(20))
    with pytest.raises(UserError, match="thirty"):
        _ = [each async for each in ordered(range(20, 1000), work, 5)]
    assert max(started) < 40


SCORE = textwrap.dedent(
    """
    import asyncio, sys
    from pathlib import Path
    from docagent_rl.play.run_folder import RunFolder
    from docagent_rl.eval.scoring.run import ScoringSettings, score_run
    from tests.eval.scoring.test_run import panel
    folder, url, cache = sys.argv[1:]
    asyncio.run(score_run(RunFolder(Path(folder)), ScoringSettings(panel(url, cache), concurrency=2)))
    """
)


@pytest.mark.slow
async def test_killed_and_gone_on_with_gives_the_same_files_and_asks_nothing_twice(tmp_path):
    run_of(tmp_path / "whole", mixed(36))
    run_of(tmp_path / "cut", mixed(36))
    server = ChatServer(compute=verdict, slow_s=0.02)

    async def process(name):
        command = [
            sys.executable,
            "-c",
            SCORE,
            str(tmp_path / name),
            server.url,
            str(tmp_path / f"{name}-cache"),
        ]
        return await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[3])

    async with serving(server):
        assert await (await process("whole")).wait() == 0
        asked = len(server.requests)
        server.requests.clear()
        rng, kills = random.Random(1), 0
        while True:
            before = len(server.requests)
            running = await process("cut")
            wanted = before + rng.randrange(5, 15)
            began = time.monotonic()
            while running.returncode is None and len(server.requests) < wanted:
                await asyncio.sleep(0.01)
                assert time.monotonic() - began < 120
            if running.returncode is not None:
                assert running.returncode == 0
                break
            running.send_signal(signal.SIGKILL)
            await running.wait()
            kills += 1
    assert kills >= 3
    for name in ("scores.jsonl", "scores.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    # what was in flight at a kill is asked again, and nothing else
    assert len(server.requests) <= asked + 2 * kills


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "scores.jsonl"
    path.write_text('{"version": 1}\n')
    with pytest.raises(UserError, match=r"scores\.jsonl, line 1"):
        list(read_scores(path))
    path.write_text("[]\n")
    with pytest.raises(UserError, match=r"scores\.jsonl, line 1"):
        list(read_scores(path))


@pytest.mark.slow
async def test_sessions_are_not_all_held_at_once(tmp_path, monkeypatch):
    folder = run_of(tmp_path, mixed(300))
    alive: weakref.WeakSet = weakref.WeakSet()
    most = 0
    read = RunFolder.sessions

    def counted(self):
        nonlocal most
        for trajectory in read(self):
            held = Held(**{each.name: getattr(trajectory, each.name) for each in fields(trajectory)})
            alive.add(held)
            most = max(most, len(alive))
            yield held

    monkeypatch.setattr(RunFolder, "sessions", counted)
    assert len(await score_run(folder, ScoringSettings(concurrency=8))) == 300
    assert most <= 30


class Held(Trajectory):
    """One that can be watched; equal only to itself."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


@pytest.mark.parametrize(
    ("dataset", "expert", "value"),
    [("slidevqa", "true_false_judge", "judged"), ("vidoseek", "vidoseek_judge", "passing")],
)
async def test_slides_are_judged_whoever_played(tmp_path, dataset, expert, value):
    sessions = [answered(question(0, dataset=dataset), "Lake Ontario", system="rag_image")]
    (found,) = await score_run(run_of(tmp_path, sessions), ScoringSettings())
    assert set(found.experts) == {expert}
    assert found.values[value] == 1.0
    assert benchmark(dataset, [found], ReportSettings(draws=5)).number(value).ruled
