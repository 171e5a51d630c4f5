"""Documents whose overview exceeds the prompt, from real PDFs, counted with the real classes of the model."""

from __future__ import annotations

import dataclasses
import re

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.envs.delivery import render
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.rollout.images import ImageEncoder
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from tests.systems.doc_v_star.play import answer, fetch, shown, texts

LIMIT = 8192
LENGTHS = {"short": 36, "long": 130, "longer": 300}


@pytest.fixture(scope="module")
def long_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    (folder / "pdf").mkdir()
    for name, pages in LENGTHS.items():
        canvas = Canvas(str(folder / "pdf" / f"{name}.pdf"), pagesize=(210, 297), invariant=True)
        for number in range(1, pages + 1):
            canvas.drawString(30, 150, f"page{number}")
            canvas.showPage()
        canvas.save()
    ingest(folder / "pdf", folder / "store", workers=1, settings=RenderSettings(dpi=36))
    return DocumentStore(folder / "store")


@pytest.fixture
def open_env(long_store, processor, record):
    def count(text):
        return len(processor.tokenizer.encode(text, add_special_tokens=False))

    def make(doc_id, *, limit=LIMIT, question="Where?", **overrides):
        retriever = RetrieverService(BM25Retriever.build(long_store))
        services = EnvServices(long_store, retriever, RuleJudge(), count_tokens=count)
        if limit is not None:
            services = dataclasses.replace(services, prompt_tokens=limit)
        env = DocVStarEnv(DocVStarConfig.for_variant("paper", **overrides), services)
        sample = record(doc_id=doc_id, question=question, evidence_pages=(2,), extra={})
        return env, env.opening(sample)

    return make


async def length(prompt, processor, store):
    images, _ = await ImageEncoder(processor, lambda ref: render(ref, store)).encode(prompt.images)
    return len(ChatCodec(processor.tokenizer, processor).prompt_ids(prompt, images))


def labels(prompt):
    return [int(label.text) for image in prompt.images for label in image.labels]


@pytest.mark.parametrize(
    ("doc_id", "limit", "cell", "stride"),
    [("long", LIMIT, 172, 1), ("longer", LIMIT, 116, 1), ("longer", 3000, 88, 2)],
)
async def test_the_overview_fits_the_prompt(open_env, processor, long_store, doc_id, limit, cell, stride):
    env, prompt = open_env(doc_id, limit=limit)
    tokens = await length(prompt, processor, long_store)
    assert limit / 2 < tokens <= limit
    assert labels(prompt) == list(range(1, LENGTHS[doc_id] + 1, stride))
    env_metrics = env.metrics()
    assert env_metrics["overview/cell_px"] == cell
    assert env_metrics["overview/pages"] == len(labels(prompt))
    assert env_metrics["overview/sheets"] == len(prompt.images)
    assert env_metrics["overview/adapted"] == 1
    assert f"thumbnails of {cell} px" in env.adapted()


def test_short_documents_are_untouched(open_env):
    env, prompt = open_env("short")
    assert prompt == open_env("short", limit=None)[1]
    assert env.adapted() is None
    assert env.metrics()["overview/adapted"] == 0


def test_an_overview_that_leaves_out_pages_says_so(open_env):
    _, prompt = open_env("longer", limit=3000)
    assert "shows one page in 2, beginning with page 1,\n150 of 300" in texts(prompt)
    assert "images that show some of the pages" in texts(prompt)
    _, whole = open_env("longer")
    assert "images that show all pages" in texts(whole)
    assert "one page in" not in texts(whole)


async def test_pages_between_those_shown_can_be_fetched(open_env, play, record):
    env, prompt = open_env("longer", limit=3000)
    assert 2 not in labels(prompt)
    sample = record(doc_id="longer", evidence_pages=(2,), extra={})
    episode = await play(env, sample, [fetch("[2, 300]"), answer("blue", "[2]")])
    assert shown(episode.results[0]) == [2, 300]
    assert episode.metrics["reward/total"] == pytest.approx(1)


@pytest.mark.parametrize(("fit", "limit"), [("error", LIMIT), ("shrink", 3000)])
def test_what_may_not_be_changed_is_refused_with_the_document(open_env, fit, limit):
    message = re.escape(f"'longer', 300 pages and 27480 visual tokens, do not fit a prompt of {limit} tokens")
    with pytest.raises(UserError, match=message):
        open_env("longer", limit=limit, overview={"fit": fit})


def test_a_question_that_leaves_no_room(open_env):
    with pytest.raises(UserError, match="8192"):
        open_env("short", question="why? " * 9000)


def test_a_long_question_gets_a_smaller_overview(open_env):
    cells = [open_env("long", question="why? " * n)[0].metrics()["overview/cell_px"] for n in (1, 900)]
    assert cells[0] > cells[1]
