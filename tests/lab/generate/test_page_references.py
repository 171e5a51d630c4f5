"""Questions that assume an open page get its number."""

from dataclasses import replace

import pytest

from docagent_rl.endpoints.chat_reply import ReplyError
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.lab.generate.page_references import (
    RewriteOutcome,
    Rewriting,
    filtered,
    reply_label,
    with_page,
)
from tests.chat_server import ChatServer, serving
from tests.lab.eval.scoring.trajectories import question

ASKED = question(question="What is the date?", evidence_pages=(5,))


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, None),
        ({"evidence_pages": ()}, RewriteOutcome.NO_PAGE),
        ({"evidence_pages": (1, 2)}, RewriteOutcome.SEVERAL_PAGES),
        ({"extra": {"page_ids": ["other#2"]}, "evidence_pages": ()}, RewriteOutcome.SEVERAL_PAGES),
        ({"question": "What is on page 3?"}, RewriteOutcome.NAMES_PAGE),
        ({"question": "What is the number on Slide no. 12?"}, RewriteOutcome.NAMES_PAGE),
        ({"question": "What is the page number?"}, None),
    ],
)
def test_filters_decide_before_a_model_is_asked(changes, outcome):
    assert filtered(replace(ASKED, **changes)) is outcome


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ('{"label": 1}', 1),
        ('```json\n{ "label": "0" }\n```', 0),
        ('I think so. {"label": 1}', 1),
        ('{"label": 2}', None),
        ('{"label": 1} or {"label": 0}', None),
        ("1", None),
    ],
)
def test_a_label_is_0_or_1(text, label):
    if label is None:
        with pytest.raises(ReplyError):
            reply_label(text)
    else:
        assert reply_label(text) == label


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("What is the date?", "In page 5, what is the date?"),
        ("Harlow's signature stands where?", "In page 5, Harlow's signature stands where?"),
        ("Island names?", "In page 5, Island names?"),
    ],
)
def test_a_question_begins_with_its_page_and_names_keep_their_capital(text, written):
    found = with_page(replace(ASKED, question=text))
    assert found.question == written
    assert (found.extra["native_question"], found.extra["page_reference"]) == (text, 5)
    assert found.answers == ASKED.answers


async def labelled(server, samples, cache, **options):
    async with serving(server):
        endpoint = Endpoint(base_url=server.url, model="m", attempts=1, backoff_s=0, concurrency=1)
        model = RemoteModel(endpoint, "model", temperature=0.7, cache_dir=cache)
        run = Rewriting(samples, model, **options)
        ticks = []
        await run.run(lambda: ticks.append(1))
        await model.aclose()
        return run, len(ticks)


async def test_the_majority_of_replies_decides_and_all_questions_are_kept(tmp_path):
    samples = [
        replace(ASKED, question_id="a"),
        question(1, question="Who leads Tarn Shipping?"),
        replace(ASKED, question_id="b", question="What is on page 2?"),
    ]
    labels = iter([1, 0, 1, 0, 0])
    server = ChatServer(compute=lambda _: f'{{"label": {next(labels)}}}')
    run, ticks = await labelled(server, samples, tmp_path)
    first, second, third = run.result()
    assert first.question == "In page 5, what is the date?"
    assert (second, third) == (samples[1], samples[2])
    # the third reply was not needed for the second question
    assert (len(server.requests), ticks) == (5, 2)
    assert run.counts() == {
        RewriteOutcome.NO_PAGE.value: 0,
        RewriteOutcome.SEVERAL_PAGES.value: 0,
        RewriteOutcome.NAMES_PAGE.value: 1,
        RewriteOutcome.NO_LABEL.value: 0,
        RewriteOutcome.FINDABLE.value: 1,
        RewriteOutcome.REWRITTEN.value: 1,
    }


async def test_a_question_without_a_label_stays_as_it_is(tmp_path):
    server = ChatServer(compute=lambda _: "no label")
    run, _ = await labelled(server, [ASKED], tmp_path)
    assert run.result() == [ASKED]
    assert run.outcomes == {0: RewriteOutcome.NO_LABEL}
    assert sum(run.unanswered.values()) == 1
