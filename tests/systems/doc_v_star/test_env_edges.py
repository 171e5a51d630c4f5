from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.envs.base import EndReason
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from docagent_rl.systems.doc_v_star.system import SYSTEM
from tests.systems.doc_v_star.play import answer, fetch, retrieve, shown, texts, turn

TIGHT = {"reserve_tokens": 500}


async def test_pages_that_leave_too_little_are_withheld(env_of, sample, play):
    """Each page is 962 tokens; the overview 810, the rest of the prompt about 700."""
    env = env_of(context_tokens=4700, **TIGHT)
    episode = await play(env, sample(), [fetch("[3, 4, 5]"), answer(relevant="[3, 4]")])
    first = episode.results[0]
    assert shown(first) == [3, 4]
    assert "not enough room left to show page 5." in texts(first.observation)
    assert "6 turns are left" in texts(first.observation)
    assert first.info["effect"]["withheld"] == [5]
    assert first.info["faults"] == []
    assert episode.terms.values["total"] == pytest.approx(1)
    metrics = episode.metrics
    assert (metrics["budget_cut"], metrics["pages_withheld"], metrics["pages_seen"]) == (1, 1, 2)


async def test_when_no_page_fits_the_next_turn_is_the_last(env_of, sample, play):
    env = env_of(context_tokens=3700, **TIGHT)
    turns = [fetch("[3]"), retrieve("pagem4", ""), retrieve("pagem4", "")]
    episode = await play(env, sample(), turns)
    assert shown(episode.results[0]) == [3]
    text = texts(episode.results[1].observation)
    assert "not enough room left to show page 4." in text
    assert "turn 3 and your last: it must be an answer" in text
    assert episode.results[-1].end is EndReason.CONTEXT_FULL
    assert len(episode.results) == 3
    assert episode.metrics["format_ok"] == 1
    answered = await play(
        env_of(context_tokens=3700, **TIGHT), sample(), [*turns[:2], answer(relevant="[3]")]
    )
    assert answered.results[-1].end is EndReason.ANSWERED
    assert answered.terms.values["format"] == 1


async def test_without_a_budget_nothing_is_withheld(env_of, sample, play):
    episode = await play(env_of(), sample(), [fetch("[1 2 3 4]"), fetch("[5 6 7 8]", "")])
    assert episode.metrics["budget_cut"] == 0
    assert episode.metrics["pages_seen"] == 8


def test_an_overview_that_fills_the_context(env_of, sample):
    with pytest.raises(UserError, match=r"'q1'.*'M'"):
        env_of(context_tokens=1500, **TIGHT).opening(sample())


async def test_unanswerable_questions(env_of, sample, play):
    nobody = sample(answers=(), answerable=False, evidence_pages=())
    abstains = turn("<answer>Not answerable</answer>")
    episode = await play(env_of(), nobody, [abstains])
    assert episode.terms.values == {"answer": 1, "evidence": 1, "format": 1, "total": pytest.approx(1)}
    listing = await play(env_of(), nobody, [fetch("[1]"), answer("Not answerable", "[1]")])
    assert listing.terms.reward == pytest.approx(0.7)
    wrong = await play(env_of(), sample(), [abstains])
    assert wrong.terms.values["answer"] == 0


async def test_lists(env_of, sample, play):
    for answer_format in ("List", "list/extractive"):
        gold = sample(answers=("blue", "red"), answer_format=answer_format)
        episode = await play(env_of(), gold, [turn("<answer>red; blue</answer>")])
        assert episode.terms.values["answer"] == 1
    either = await play(env_of(), sample(answers=("blue", "red")), [turn("<answer>red</answer>")])
    assert either.terms.values["answer"] == 1


async def test_unknown_evidence(env_of, sample, play):
    unknown = sample(evidence_pages=())
    with pytest.raises(UserError, match=r"'q1'.*allow_unknown_evidence"):
        await env_of().reset(unknown)
    for settings in ({"validate": True}, {"allow_unknown_evidence": True}):
        episode = await play(env_of(**settings), unknown, [turn("<answer>blue</answer>")])
        assert episode.terms.values == {"answer": 1, "evidence": 0, "format": 1, "total": pytest.approx(0.7)}
        metrics = episode.metrics
        assert metrics["evidence_known"] == 0
        assert not {"page_f1", "page_precision", "page_recall", "retrieval_recall"} & set(metrics)


async def test_a_window_of_a_document(env_of, sample, play):
    window = sample(evidence_pages=(5,), extra={"window": [4, 6]})
    env = env_of(retrieval={"pages": 8})
    episode = await play(env, window, [retrieve("everypage"), fetch("[3]", ""), answer(relevant="[5]")])
    assert "3 pages, numbers 4 to 6" in texts(episode.prompt)
    assert [label.text for label in episode.prompt.images[0].labels] == ["4", "5", "6"]
    assert sorted(shown(episode.results[0])) == [4, 5, 6]
    assert episode.results[1].info["faults"] == ["fetch_pages"]
    assert episode.terms.values["evidence"] == 1
    assert len((await env_of(use_window=False).reset(window)).images[0].pages) == 8


async def test_evidence_outside_of_the_window_is_not_asked_for(env_of, sample, play):
    """The best play reaches everything; a question whose evidence lies outside altogether is not trained."""
    partly = sample(evidence_pages=(2, 5), extra={"window": [4, 6]})
    episode = await play(env_of(), partly, [fetch("[5]"), answer(relevant="[5]")])
    assert episode.terms.values == pytest.approx({"answer": 1, "evidence": 1, "format": 1, "total": 1})
    assert (episode.metrics["retrieval_recall"], episode.metrics["page_f1"]) == (1, 1)
    assert episode.metrics["evidence_dropped"] == 1
    outside = sample(evidence_pages=(1, 2), extra={"window": [4, 6]})
    with pytest.raises(UserError, match=r"'q1'.*4 to 6"):
        await env_of().reset(outside)
    validated = await play(env_of(validate=True), outside, [turn("<answer>blue</answer>")])
    assert (validated.metrics["evidence_known"], validated.metrics["evidence_dropped"]) == (0, 2)
    assert "page_f1" not in validated.metrics
    whole = await play(env_of(use_window=False), partly, [fetch("[2, 5]"), answer(relevant="[2, 5]")])
    assert whole.terms.values["evidence"] == 1


@pytest.mark.parametrize("window", [[4], [6, 4], [0, 3], [4, 9], "4-6", [True, 3]])
def test_windows_that_make_no_sense(env_of, sample, window):
    with pytest.raises(UserError, match=r"'q1'.*extra\.window.*1 to 8"):
        env_of().opening(sample(extra={"window": window}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evidence_pages": (9,)}, "'q1'.*9.*'M'"),
        ({"extra": {"page_ids": ["M#3", "K#1"]}}, "'q1'.*'K'"),
        ({"answers": (), "answerable": None}, "'q1'"),
    ],
)
def test_questions_that_cannot_be_played(env_of, sample, changes, message):
    with pytest.raises(UserError, match=message):
        env_of().opening(sample(**changes))


async def test_ablations_of_the_grammar(env_of, sample, play):
    blind = env_of(retrieval={"enabled": False})
    episode = await play(blind, sample(), [retrieve("pagem3"), fetch("[3]", "")])
    assert episode.results[0].info["valid"] is False
    assert shown(episode.results[1]) == [3]
    assert "retrieval" not in texts(episode.prompt) + texts(episode.results[0].observation)
    brief = env_of(thought={"analysis": False})
    thought = "<think><relevant_pages></relevant_pages><summary>s</summary></think>"
    episode = await play(brief, sample(), [fetch("[3]"), f"{thought}<action><answer>blue</answer></action>"])
    assert episode.terms.values["format"] == 1


class Stubborn:
    """A retriever that does not care what it is told."""

    def __init__(self, retriever):
        self.retriever = retriever

    def search(self, queries, **_):
        return [2 * hits for hits in self.retriever.search(queries, top_k=99)]


async def test_hits_of_other_documents_and_repeated_hits_are_left_out(
    env_of, sample, store, retriever, judge, play
):
    env = env_of(
        services=EnvServices(store, RetrieverService(Stubborn(retriever)), judge), retrieval={"pages": 5}
    )
    episode = await play(env, sample(), [retrieve("everypage"), retrieve("everypage", "")])
    seen = [shown(result) for result in episode.results]
    assert [len(pages) for pages in seen] == [5, 3]
    assert sorted(itertools.chain(*seen)) == list(range(1, 9))
    images = [image for result in episode.results for image in result.observation.images]
    assert {image.page.doc_id for image in images} == {"M"}


def test_as_a_system(services, sample):
    made = SYSTEM
    config = made.parse_config({"max_turns": 3})
    assert (made.name, made.max_turns(config), made.max_images(config)) == ("doc_v_star", 3, 8)
    assert made.make_grammar(config).tags == ("retrieval_page", "fetch_page", "answer")
    assert made.make_env(config, services).opening(sample()).images
    with pytest.raises(UserError, match=r"docagent\.env\.rounds"):
        made.parse_config({"rounds": 3})


def _write(path: Path, pages: int) -> None:
    canvas = Canvas(str(path), pagesize=(200, 280), invariant=True)
    for number in range(1, pages + 1):
        canvas.drawString(20, 200, f"word{number}")
        canvas.showPage()
    canvas.save()


async def test_a_long_document(tmp_path, judge, record, play):
    """83 pages: the worked example of the specification, on real pages."""
    (tmp_path / "pdf").mkdir()
    _write(tmp_path / "pdf" / "L.pdf", 83)
    ingest(tmp_path / "pdf", tmp_path / "store", workers=1)
    store = DocumentStore(tmp_path / "store")
    services = EnvServices(store, RetrieverService(BM25Retriever.build(store)), judge)
    env = DocVStarEnv(DocVStarConfig(), services)
    long = record(doc_id="L", evidence_pages=(61,), extra={})
    episode = await play(env, long, [retrieve("word61 word2 word3 word4 word5"), answer(relevant="[61]")])
    assert [image.size for image in episode.prompt.images] == [(1536, 1680), (1536, 1680), (768, 1120)]
    assert "Overview 3 of 3, pages 73 to 83:" in texts(episode.prompt)
    assert len(shown(episode.results[0])) == 4
    second = episode.prompt.images[1]
    (label,) = [label for label in second.labels if label.text == "61"]
    assert label.box[:2] == (0, 1120)
