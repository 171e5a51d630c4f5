from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter

import pytest

from docagent_rl.endpoints.budget import Budget, BudgetError
from docagent_rl.endpoints.model_config import ModelConfig
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.generate.config import (
    FilterConfig,
    GenerateConfig,
    JsonMode,
    JudgedBy,
    Kind,
    KindConfig,
    View,
)
from docagent_rl.generate.draft import OUTAGES, Stage
from docagent_rl.generate.generation import Generation
from docagent_rl.generate.outage import IN_A_ROW
from docagent_rl.generate.prompt_files import Prompts
from docagent_rl.records.validation import record_problems
from tests.chat_server import ChatServer, completion, serving
from tests.generate.reading_model import reply_to

MANY = tuple(
    KindConfig(kind=kind, per_document=8 if kind is Kind.SINGLE_PAGE else 4, questions=2) for kind in Kind
)


def generation(store, server, folder, *, budget=None, concurrency=16, **changes) -> Generation:
    config = GenerateConfig(**{"kinds": MANY, **changes})
    prices = {"input": 1.0, "output": 4.0}
    options = {"price": prices, "backoff_s": 0, "concurrency": concurrency}
    model = ModelConfig(base_url=server.url, model="m", **options).open("model", folder, budget=budget)
    return Generation(store, store.doc_ids(), config, Prompts.load(config.prompts), model)


def play(run: Generation):
    asyncio.run(run.run())
    return run.outcome()


@pytest.mark.slow
def test_every_stage_of_the_funnel_drops_what_it_is_for(reports, server, tmp_path):
    records, funnel = play(generation(reports, server, tmp_path))
    lost = {stage: [each for each in funnel.dropped if each.stage is stage] for stage in Stage}
    assert {stage for stage, found in lost.items() if not found} == {*OUTAGES, Stage.UNREAD}
    assert {record.extra["kind"] for record in records} == set(Kind) - {Kind.CHART}
    # what is kept is what the model wrote in good faith
    for record in records:
        assert record_problems(record, store=reports) == []
        assert "Paris" not in record.answers
        assert "9,999,999" not in record.answers
        assert "registered office" not in record.question
        for page in record.evidence_pages if record.extra["kind"] != Kind.MULTI_PAGE else ():
            text = " ".join(reports.document(record.doc_id).page(page).text().split())
            assert f"{record.answers[0]}." in text
        assert len(record.evidence_pages) >= (2 if record.extra["kind"] == Kind.MULTI_PAGE else 0)
    rows = dict(funnel.rows())
    written = rows["questions written"].total()
    after = sum(
        len(found) for stage, found in lost.items() if stage not in (Stage.UNREADABLE, Stage.DECLINED)
    )
    assert written == after + len(records)
    assert rows["requests for questions"].total() == len(funnel.planned)


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes_and_costs_nothing(reports, server, tmp_path):
    first = generation(reports, server, tmp_path)
    records, funnel = play(first)
    asked = len(server.requests)
    second = generation(reports, server, tmp_path)
    again, table = play(second)
    assert [record.to_json() for record in again] == [record.to_json() for record in records]
    assert table.to_json(second.digest) == funnel.to_json(first.digest)
    assert len(server.requests) == asked
    assert second.model.budget.spent.requests == 0
    assert first.model.budget.spent.cost > 0


@pytest.mark.slow
def test_a_budget_is_kept_and_the_run_goes_on(reports, server, tmp_path):
    whole, _ = play(generation(reports, server, tmp_path / "whole"))
    before, steps = len(server.requests), 0
    while True:
        run = generation(reports, server, tmp_path / "parts", budget=Budget(max_requests=120))
        steps += 1
        try:
            asyncio.run(run.run())
        except BudgetError:
            assert run.model.budget.spent.requests <= 120
            assert run.undone > 0
            continue
        break
    assert steps > 2
    assert [record.to_json() for record in run.outcome()[0]] == [record.to_json() for record in whole]
    assert len(server.requests) == 2 * before


def test_replies_in_any_order_give_the_same_questions(reports, server, tmp_path):
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=3, questions=2),)
    found = []
    for number in range(2):
        run = generation(reports, server, tmp_path / str(number), kinds=kinds)
        random.Random(number).shuffle(run.slots)
        order = sorted(run.slots, key=lambda slot: slot.slot_id)
        asyncio.run(run.run())
        run.slots = order
        found.append([record.to_json() for record in run.outcome()[0]])
    assert found[0] == found[1] != []


def test_pictures_are_shown_to_a_model_that_sees(sheets, server, tmp_path):
    kinds = (KindConfig(kind=Kind.PAGE_INDEX, per_document=4),)
    records, funnel = play(generation(sheets, server, tmp_path, kinds=kinds, view=View.IMAGE))
    assert {(record.evidence_pages, record.answers) for record in records} == {
        ((1,), ("red",)),
        ((2,), ("green",)),
        ((3,), ("blue",)),
        ((4,), ("white",)),
    }
    assert "base64" not in funnel.to_json("x")


def test_scanned_pages_and_a_model_that_reads(sheets, server, tmp_path):
    with pytest.raises(UserError, match=r"--view image"):
        generation(sheets, server, tmp_path)


def test_a_model_that_takes_no_pictures_ends_the_run(sheets, server, tmp_path):
    server.compute = lambda request: 400
    kinds = (KindConfig(kind=Kind.PAGE_INDEX, per_document=40),)
    with pytest.raises(InfrastructureError, match=r"HTTP 400.*--view text"):
        play(generation(sheets, server, tmp_path, kinds=kinds, view=View.IMAGE))
    assert len(server.requests) < 40


def test_one_request_that_is_refused_is_counted(reports, server, tmp_path):
    refused = []

    def compute(request: dict):
        if not refused and "of alpha" in json.dumps(request):
            refused.append(request)
        return 400 if request in refused else reply_to(request)

    server.compute = compute
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=3),)
    _, funnel = play(generation(reports, server, tmp_path, kinds=kinds))
    told = [each.reason for each in funnel.dropped if "HTTP 400" in each.reason]
    assert told == ["refused by the server: HTTP 400"]


def test_a_judge_that_is_silent_drops_its_questions_alone(reports, server, tmp_path):
    def compute(request: dict):
        judging = "You grade answers" in json.dumps(request["messages"][0])
        return completion("I would rather not say.") if judging else reply_to(request)

    server.compute = compute
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=4),)
    records, funnel = play(generation(reports, server, tmp_path, kinds=kinds))
    unread = [each for each in funnel.dropped if each.stage is Stage.UNREAD]
    assert {"the judge gave no verdict" in each.reason for each in unread} == {True}
    assert funnel.unanswered == len(unread)
    ruled, _ = play(generation(reports, server, tmp_path, kinds=kinds, judge=JudgedBy.RULE))
    assert len(records) <= len(ruled)


def test_one_answer_that_a_judge_refuses_to_compare_drops_its_question_alone(reports, server, tmp_path):
    refused = []

    def compute(request: dict):
        judging = "You grade answers" in json.dumps(request["messages"][0])
        if judging and len(refused) < 2:
            refused.append(request)
        return 400 if request in refused else reply_to(request)

    server.compute = compute
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=3),)
    records, funnel = play(generation(reports, server, tmp_path, kinds=kinds))
    unread = [each for each in funnel.dropped if each.stage is Stage.UNREAD]
    assert ["HTTP 400" in each.reason for each in unread] == [True, True]
    assert records
    # nothing of a refusal is kept: the next run asks again, and its file may take the place of this one
    assert json.loads(funnel.to_json("x"))["unanswered"]["count"] == 2
    server.compute = reply_to
    again, funnel = play(generation(reports, server, tmp_path, kinds=kinds))
    assert (funnel.unanswered, len(again) >= len(records)) == (0, True)


def test_replies_that_are_cut_off_are_counted(reports, server, tmp_path):
    server.compute = lambda request: completion("{", "length")
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=1),)
    records, funnel = play(generation(reports, server, tmp_path, kinds=kinds))
    assert records == []
    assert {each.stage for each in funnel.dropped} == {Stage.UNREADABLE}
    assert "--reply-tokens" in funnel.dropped[0].reason


def test_a_server_that_is_gone_ends_the_run(reports, server, tmp_path):
    server.compute = lambda request: 503
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=4),)
    told = (
        r"^document '\w+', page \d+: \d+ requests in a row brought no reply; .*HTTP 503.*run the same command"
    )
    with pytest.raises(InfrastructureError, match=told) as failed:
        play(generation(reports, server, tmp_path, kinds=kinds, concurrency=1))
    assert f"{IN_A_ROW} requests" in str(failed.value)
    assert len(server.requests) == 3 * IN_A_ROW


def test_one_request_that_fails_for_ever_is_dropped_and_asked_again(reports, server, tmp_path):
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=3),)
    whole, _ = play(generation(reports, server, tmp_path / "whole", kinds=kinds))
    poison = []

    def compute(request: dict):
        asked = json.dumps(request["messages"])
        if not poison and "You write questions" in asked and "of alpha" in asked:
            poison.append(request["messages"])
        return 500 if request["messages"] in poison else reply_to(request)

    server.compute = compute
    run = generation(reports, server, tmp_path / "parts", kinds=kinds, concurrency=1)
    _, funnel = play(run)
    (lost,) = [each for each in funnel.dropped if each.stage is Stage.NO_REPLY]
    assert (lost.slot.doc_id, funnel.unanswered) == ("alpha", 1)
    assert "HTTP 500" in lost.reason
    rows = dict(funnel.rows())
    assert rows["requests for questions"].total() == len(run.slots)
    server.compute = reply_to
    before = len(server.requests)
    again, funnel = play(generation(reports, server, tmp_path / "parts", kinds=kinds))
    assert funnel.unanswered == 0
    assert [record.to_json() for record in again] == [record.to_json() for record in whole]
    # it, and the checks of what it brings
    assert 1 <= len(server.requests) - before <= 12


@pytest.mark.parametrize("check", ["You decide", "You grade answers"])
def test_checks_that_fail_now_and_then_drop_their_questions_alone(reports, server, tmp_path, check):
    failing = []

    def compute(request: dict):
        asked = request["messages"]
        if check in json.dumps(asked[0]) and not failing:
            failing.append(asked)
        return 500 if asked in failing else reply_to(request)

    server.compute = compute
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=2),)
    _, funnel = play(generation(reports, server, tmp_path, kinds=kinds, concurrency=1))
    (lost,) = [each for each in funnel.dropped if each.stage is Stage.UNCHECKED]
    assert lost.draft is not None
    assert re.match(
        r"(not clear|answered without document|evidence does not answer): .*HTTP 500", lost.reason
    )


def test_a_judge_that_is_gone_ends_the_run_though_the_model_replies(reports, server, tmp_path, monkeypatch):
    monkeypatch.setattr("docagent_rl.generate.outage.IN_A_ROW", 3)
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=7),)
    run = generation(reports, server, tmp_path, kinds=kinds, concurrency=1)
    gone = ChatServer(compute=lambda request: 500)

    async def both():
        async with serving(gone):
            judge = ModelConfig(base_url=gone.url, model="j", backoff_s=0, attempts=1).open("judge", None)
            config = run.config.model_copy(update={"filters": FilterConfig(closed_book=False)})
            judged = Generation(
                reports, reports.doc_ids(), config, Prompts.load(config.prompts), run.model, judge=judge
            )
            await judged.run()

    with pytest.raises(InfrastructureError, match=r"^document '\w+', page \d+.*\b3\b.*judge"):
        asyncio.run(both())
    assert len(gone.requests) == 3


def test_who_is_busy_is_waited_for(reports, server, tmp_path):
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=1),)
    whole, _ = play(generation(reports, server, tmp_path / "whole", kinds=kinds))
    tries = Counter()

    def compute(request: dict):
        asked = json.dumps(request["messages"])
        tries[asked] += 1
        return (429, {"Retry-After": "0"}, b"{}") if tries[asked] <= 5 else reply_to(request)

    server.compute = compute
    records, funnel = play(generation(reports, server, tmp_path / "busy", kinds=kinds))
    assert funnel.unanswered == 0
    assert [record.to_json() for record in records] == [record.to_json() for record in whole] != []


def test_known_questions_are_not_asked_again(reports, server, tmp_path):
    kinds = (KindConfig(kind=Kind.PAGE_INDEX, per_document=4),)
    run = generation(reports, server, tmp_path, kinds=kinds)
    records, _ = play(run)
    config = GenerateConfig(kinds=kinds)
    again = Generation(
        reports, reports.doc_ids(), config, Prompts.load(config.prompts), run.model, known=records[:2]
    )
    kept, funnel = play(again)
    assert [record.question for record in kept] == [record.question for record in records[2:]]
    assert [each.stage for each in funnel.dropped][-2:] == [Stage.DUPLICATE] * 2


def test_runs_with_other_seeds_can_be_put_together(reports, server, tmp_path):
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=3),)
    first, _ = play(generation(reports, server, tmp_path, kinds=kinds))
    other, _ = play(generation(reports, server, tmp_path, kinds=kinds, seed=1))
    both = {record.question_id: record.question for record in (*first, *other)}
    assert len(both) == len({(record.doc_id, record.question) for record in (*first, *other)}) > len(first)


@pytest.mark.parametrize("send", [True, False])
def test_servers_that_know_no_seed_get_none(reports, server, tmp_path, send):
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=7),)
    run = generation(reports, server, tmp_path, kinds=kinds, send_seed=send)
    play(run)
    written = [request for request in server.requests if "seed" in request]
    assert len(written) >= len(run.slots) if send else written == []
    asked = [request for request in server.requests if "You write" in json.dumps(request["messages"][0])]
    # pages that are shown again are asked about again, and not answered from the cache
    assert len(asked) >= len(run.slots)


@pytest.mark.parametrize(
    ("json_mode", "kind"),
    [(JsonMode.ANY, None), (JsonMode.OBJECT, "json_object"), (JsonMode.SCHEMA, "json_schema")],
)
def test_a_server_may_be_told_to_write_json_alone(reports, server, tmp_path, json_mode, kind):
    kinds = (KindConfig(kind=Kind.SINGLE_PAGE, per_document=2),)
    play(generation(reports, server, tmp_path, kinds=kinds, json_mode=json_mode))
    formats = {}
    for request in server.requests:
        judging = "You grade answers" in json.dumps(request["messages"][0])
        formats.setdefault(judging, set()).add(request.get("response_format", {}).get("type"))
    # a verdict is no JSON object
    assert formats == {True: {None}, False: {kind}}
