"""Runs are scored by rules, by a model, by two models, stopped and resumed."""

import asyncio
import contextlib
import re

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.eval.scoring.roles import Author
from docagent_rl.lab.eval.scoring.run import ScoringSettings, score_run
from tests.chat_server import ChatServer, completion, serving
from tests.lab.eval.scoring.trajectories import answered, masked, play_of, question, run_of, turn


def mixed(number=12, dataset="mmlongbench"):
    """Return right and wrong trajectories, some without an answer or not played."""
    for n in range(number):
        sample = question(n, dataset=dataset, answer_format="Str", extra={"gold": "Lake Ontario"})
        if n % 6 == 4:
            yield play_of(sample, turn("search", pages=(3,)))
        elif n % 6 == 5:
            yield masked(sample, "infrastructure")
        else:
            yield answered(sample, "Lake Ontario" if n % 2 else f"Lake Erie {n}", system="alden")


def verdict(request) -> str:
    """Reply as a judge that reads its request; extractors differ from judges by their prompt."""
    text = (
        request["messages"][-1]["content"]
        if len(request["messages"]) < 3
        else str(request["messages"])
    )
    whole = str(request["messages"])
    pieces = re.findall(r"----- begin \w+ -----(?:\n|\\n)(.*?)(?:\n|\\n)----- end", whole, re.S)
    if "label tags" in text:
        return f"<label>{'Correct' if pieces[-1] in pieces[1:-1] else 'Incorrect'}</label>"
    return f"Extracted answer: {pieces[-1]}\nAnswer format: String"


def panel(url, cache=None, model="judge-1"):
    patience = {"attempts": 2, "backoff_s": 0, "timeout_s": 60, "deadline_s": 120}
    return RemoteModel(Endpoint(base_url=url, model=model, **patience), "judge", cache_dir=cache)


async def ruled(path, *trajectories):
    return await score_run(run_of(path, trajectories), ScoringSettings())


async def judged(path, reply, *trajectories):
    """Score with a judge that always replies this; return the scores and the number of requests."""
    async with serving(ChatServer(compute=lambda _: reply)) as server:
        found = await score_run(run_of(path, trajectories), ScoringSettings(panel(server.url)))
    return found, len(server.requests)


async def test_without_an_endpoint_the_rules_say_so_and_a_masked_trajectory_is_wrong(tmp_path):
    found = await ruled(tmp_path, *mixed())
    assert [(each.question_id, each.number) for each in found] == [(f"q{n}", 0) for n in range(12)]
    by = {role["by"] for each in found for role in each.replies.values()}
    assert by == {Author.RULE.value, Author.NOBODY.value}
    assert [each.values["score"] for each in found[:6]] == [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert [each.values["rule"] for each in found[:6]] == [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    gone = found[5]
    assert (gone.status, gone.reason) == ("masked", "infrastructure")
    assert (gone.values["exact"], gone.values["finished"]) == (0.0, 0.0)
    # it took part in nothing, so no mean of these may count it
    assert not {"turns", "page_recall", "unique_pages", "seconds"} & set(gone.values)


async def test_what_nobody_wrote_down_is_not_scored(tmp_path):
    silent = play_of(question(), turn("answer", "Lake Ontario"), metrics={"pages_seen": 4.0})
    blind = play_of(question(1), turn("answer", "Lake Ontario"), metrics={"pages_seen": 0.0})
    hidden = answered(question(2, answers=(), answerable=None), "x")
    silent, blind, hidden = await ruled(tmp_path, silent, blind, hidden)
    # pages that are not told are not taken for none
    assert "page_recall" not in silent.values
    assert blind.values["page_recall"] == 0.0
    assert (hidden.scored, hidden.values["page_recall"]) == (False, 1.0)
    assert not {"rule", "exact"} & set(hidden.values)


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("4 because of what it says about", 4.0),
        ("<think>Is it 4 or", None),
        ("It is as good as", None),
    ],
)
async def test_a_grade_counts_whose_reason_was_cut_off_and_zeros_of_an_unread_judge_are_none(
    tmp_path, text, grade
):
    one = answered(question(0, dataset="vidoseek"), "Lake Ontario", system="rag_text")
    if grade is None:
        with pytest.raises(InfrastructureError, match=r"vidoseek_judge.*\b1\b"):
            await judged(tmp_path, completion(text, "length"), one)
        assert not (tmp_path / "scores.jsonl").exists()
        return
    (found,), _ = await judged(tmp_path, completion(text, "length"), one)
    assert found.values["grade"] == grade
    assert found.replies["vidoseek_judge"]["failed"] is False


@pytest.mark.parametrize(
    ("reply", "unidoc", "vrag"), [("<judge>TRUE</judge>", True, None), ("No idea.", False, None)]
)
async def test_a_verdict_is_read_by_the_rule_of_the_system_that_played(
    tmp_path, reply, unidoc, vrag
):
    one = answered(question(0), "Lake Ontario", system="unidoc_rl")
    found, requests = await judged(
        tmp_path, reply, one, answered(question(1), "x", system="vrag_rl")
    )
    for trajectory_, value in zip(found, (unidoc, vrag), strict=True):
        told = {"value": value, "by": "judge-1", "failed": value is None}
        assert trajectory_.replies["true_false_judge"] == told
        assert trajectory_.values["judged"] == float(value is True)
    # VRAG-RL's judge is asked again, UniDoc-RL's never
    assert requests == 3


async def test_a_dead_judge_ends_the_run_and_no_scores_are_left(tmp_path):
    with pytest.raises(InfrastructureError, match="judge-1"):
        await judged(tmp_path, 500, *mixed())
    assert not (tmp_path / "scores.jsonl").exists()


async def test_the_last_trajectory_of_a_key_counts_and_torn_or_missing_ones_are_told(tmp_path):
    first, second = masked(question(0), "infrastructure"), answered(question(0), "Lake Ontario")
    folder = run_of(tmp_path, [first, answered(question(1), "x"), second])
    found = await score_run(folder, ScoringSettings())
    assert [(each.question_id, each.values["exact"]) for each in found] == [
        ("q0", 1.0),
        ("q1", 0.0),
    ]
    folder.trajectories_file.write_bytes(folder.trajectories_file.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"trajectories\.jsonl"):
        await score_run(folder, ScoringSettings())
    folder.trajectories_file.unlink()
    with pytest.raises(UserError, match=r"trajectories\.jsonl"):
        await score_run(folder, ScoringSettings())


async def test_only_trajectories_with_a_search_go_to_the_judge_of_vrag_rl(tmp_path):
    found = await ruled(
        tmp_path,
        answered(question(0, dataset="vrag"), "Lake Ontario", system="vrag_rl"),
        play_of(question(1, dataset="vrag"), turn("answer", "Lake Ontario"), system="vrag_rl"),
        play_of(question(2, dataset="vrag"), turn("answer", "Lake Ontario"), system="unidoc_rl"),
    )
    assert [each.values["judged"] for each in found] == [1.0, 0.0, 1.0]
    assert found[1].replies["true_false_judge"]["by"] == Author.NOBODY.value


async def test_stopped_and_gone_on_with_gives_the_same_files_and_asks_nothing_twice(tmp_path):
    server, stops = ChatServer(compute=verdict), 0

    async def scored(name):
        judge = panel(server.url, tmp_path / f"{name}-cache")
        await score_run(RunFolder(tmp_path / name), ScoringSettings(judge, concurrency=2))

    run_of(tmp_path / "whole", mixed(24))
    run_of(tmp_path / "cut", mixed(24))
    async with serving(server):
        await scored("whole")
        asked = len(server.requests)
        server.requests.clear()
        while True:
            running = asyncio.create_task(scored("cut"))
            wanted = len(server.requests) + 5
            while not running.done() and len(server.requests) < wanted:
                await asyncio.sleep(0.001)
            if running.done():
                break
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            stops += 1
    await running
    assert stops >= 3
    cut, whole = ((tmp_path / name / "scores.jsonl").read_bytes() for name in ("cut", "whole"))
    assert cut == whole
    # what was in flight when it was stopped is asked again, and nothing else
    assert len(server.requests) <= asked + 2 * stops
