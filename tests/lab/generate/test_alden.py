from __future__ import annotations

import asyncio
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.meter import BudgetError, Meter
from docagent_rl.lab.generate.alden import (
    Decision,
    Labelling,
    digest_of_labels,
    forecast_labels,
    label_questions,
    rewritten,
    with_page,
)
from docagent_rl.lab.generate.config import GenerateConfig
from docagent_rl.lab.generate.draft import named_pages
from docagent_rl.lab.generate.prompt_files import Prompts
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.samples.validation import validate_sample
from tests.chat_server import completion

CONFIG = GenerateConfig()
PROMPTS = Prompts.load(CONFIG.prompts)
QUESTIONS = {
    "What is the date at the top of the memo?": (3,),
    "In which year was the Institute of Marine Biology founded?": (2,),
    "What is the title of page 4?": (4,),
    "Which of the two plants is larger?": (2, 5),
    "What does it cost?": (),
}


def samples() -> list[Sample]:
    def sample(row: int, text: str, pages: tuple[int, ...]) -> Sample:
        extra = {"gold": "x", "num_pages": 9, "native_id": None, "row": row}
        return Sample(f"q{row}", "made", Split.TRAIN, "K", text, ("x",), "string", pages, extra=extra)

    return [sample(row, *item) for row, item in enumerate(QUESTIONS.items())]


def label(server, folder, labelling=None, **more) -> Labelling:
    model = ModelConfig(base_url=server.url, model="m", backoff_s=0).open("model", folder, **more)
    labelling = labelling or Labelling()
    asyncio.run(label_questions(samples(), model, PROMPTS, CONFIG, labelling))
    return labelling


def votes(*labels):
    """A server whose vote depends on the seed of the request."""
    return lambda request: completion(json.dumps({"label": labels[request["seed"] % 100_003]}))


def on_memo(request: dict) -> bool:
    return "top of the memo" in json.dumps(request)


def test_questions_that_cannot_be_searched_for_name_their_page(server, tmp_path):
    labelling = label(server, tmp_path)
    made = rewritten(samples(), labelling, "m", PROMPTS)
    assert made[0].question == "On page 3, what is the date at the top of the memo?"
    assert made[0].extra["original_question"] == samples()[0].question
    assert made[0].extra["rewriting"] == {"model": "m", "prompt": PROMPTS.label.digest}
    assert [sample.question for sample in made[1:]] == list(QUESTIONS)[1:]
    assert [sample.extra["is_page_indexed"] for sample in made] == [True, False, True, False, False]
    assert labelling.decisions[3] is labelling.decisions[4] is Decision.SEVERAL
    assert all(validate_sample(sample) == [] for sample in made)


@pytest.mark.parametrize(
    ("replies", "decision", "asked"),
    [((0, 1, 0), Decision.SEARCHABLE, 3), ((1, 1, 0), Decision.REWRITTEN, 2)],
)
def test_the_majority_counts(server, tmp_path, replies, decision, asked):
    server.compute = votes(*replies)
    assert label(server, tmp_path).decisions[0] is decision
    assert sum(map(on_memo, server.requests)) == asked


def test_without_a_readable_label_a_question_is_left(server, tmp_path):
    server.compute = lambda request: completion('{"label": "1"}')
    labelling = label(server, tmp_path)
    assert labelling.decisions[0] is Decision.UNREADABLE
    assert rewritten(samples(), labelling, "m", PROMPTS)[0].question == samples()[0].question
    assert labelling.counts()[Decision.UNREADABLE.value] == 2


@pytest.mark.parametrize("status", [500, 400])
def test_a_vote_without_a_reply_is_asked_for_again_where_it_decides(server, tmp_path, status):
    given = []

    def compute(request: dict):
        if not on_memo(request):
            return completion('{"label": 0}')
        given.append(request)
        if status == 500:
            return 500
        return 400 if len(given) == 1 else completion(f'{{"label": {len(given) % 2}}}')

    server.compute = compute
    assert label(server, tmp_path).decisions[0] is Decision.NO_REPLY
    server.compute = lambda request: completion('{"label": 1}')
    assert label(server, tmp_path).decisions[0] is Decision.REWRITTEN


def test_a_refusal_names_question_document_and_page(server, tmp_path):
    server.compute = lambda request: 401
    with pytest.raises(InfrastructureError, match=r"'q[01]'.*'K'.*[23].*HTTP 401"):
        label(server, tmp_path)


def test_labels_are_kept_and_a_budget_is_too(server, tmp_path):
    with pytest.raises(BudgetError):
        label(server, tmp_path, meter=Meter(max_requests=1))
    assert len(server.requests) == 1
    label(server, tmp_path)
    total = len(server.requests)
    label(server, tmp_path)
    assert len(server.requests) == total
    assert total <= forecast_labels(samples(), PROMPTS, CONFIG).total.requests == 2 * CONFIG.votes


@given(st.text(min_size=1, max_size=60).filter(str.strip), st.integers(1, 9999))
def test_a_page_is_named_and_the_words_stay(question, page):
    made = with_page(question, page)
    assert named_pages(made)[0] == page
    assert made.casefold().endswith(question.strip()[1:].casefold())


@pytest.mark.parametrize(
    ("question", "made"),
    [
        ("Who signed the form?", "On page 2, who signed the form?"),
        ("NATO spent how much?", "On page 2, NATO spent how much?"),
        ("Whatever is shown?", "On page 2, Whatever is shown?"),
    ],
)
def test_only_words_that_are_written_small_are(question, made):
    assert with_page(question, 2) == made


def test_what_was_asked_for_is_told_apart_and_what_to_ask_again_is_noted():
    first = digest_of_labels(samples(), "m", PROMPTS, CONFIG)
    assert first == digest_of_labels(samples(), "m", PROMPTS, GenerateConfig())
    others = [
        digest_of_labels(samples(), "n", PROMPTS, CONFIG),
        digest_of_labels(samples()[1:], "m", PROMPTS, CONFIG),
        digest_of_labels(samples(), "m", PROMPTS, GenerateConfig(seed=1)),
        digest_of_labels(samples(), "m", PROMPTS, GenerateConfig(votes=5)),
    ]
    assert len({first, *others}) == 5
    found = Labelling(dict.fromkeys(range(len(QUESTIONS)), Decision.NO_REPLY))
    told = json.loads(found.to_json(samples(), "digest", "the file"))
    assert told["settings"] == "digest"
    assert told["unanswered"] == {"count": len(QUESTIONS), "sha256": hashlib.sha256(b"the file").hexdigest()}
    found.decisions = dict.fromkeys(found.decisions, Decision.SEARCHABLE)
    assert "unanswered" not in json.loads(found.to_json(samples(), "digest", "the file"))
