"""Whole episodes: an oracle that plays as well as one can, and adversaries that play as badly."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from docagent_rl.actions import Answer
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.base import EndReason
from docagent_rl.envs.delivery import render
from docagent_rl.envs.services import EnvServices, RetrieverService
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.systems.doc_v_star.actions import DocVStarGrammar
from docagent_rl.systems.doc_v_star.answer_reward import AnswerRule, Gold, GoldForm
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.env import DocVStarEnv
from docagent_rl.systems.doc_v_star.rewards import evidence_score
from tests.systems.doc_v_star.play import adversary, oracle, turn

LIMITS = {"context_tokens": 5200, "reserve_tokens": 500}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"evidence_pages": (3,)},
        {"evidence_pages": tuple(range(1, 9))},
        {"answers": ("blue", "12", "March 3, 2019"), "answer_format": "list/extractive"},
        {"answers": ("14,250",)},
        {"answers": (), "answerable": False, "evidence_pages": ()},
    ],
)
async def test_the_oracle_gets_everything(env_of, sample, play, store, changes):
    question = sample(**changes)
    episode = await play(env_of(), question, oracle(question))
    assert episode.terms.values == pytest.approx({"answer": 1, "evidence": 1, "format": 1, "total": 1})
    assert episode.rewards[:-1] == [0.0] * (len(episode.results) - 1)
    metrics = episode.metrics
    assert metrics["finished"] == metrics["format_ok"] == 1
    assert metrics["invalid_actions"] == metrics["no_answer"] == 0
    if question.evidence_pages:
        assert metrics["page_f1"] == metrics["page_precision"] == metrics["retrieval_recall"] == 1
    for image in episode.prompt.images:
        assert render(image, store).size == image.size


async def test_the_oracle_reads_synthetic_documents(tmp_path, judge, play):
    """Generated questions on a generated report, the retriever's own ranking, every kind of answer."""
    from docagent_rl.records.record import read_jsonl
    from docagent_rl.synth import Difficulty, SynthSettings, synthesize

    synthesize(tmp_path / "synth", SynthSettings(documents=1, difficulties=(Difficulty.EASY,)))
    ingest(tmp_path / "synth" / "pdfs", tmp_path / "store", workers=1)
    store = DocumentStore(tmp_path / "store")
    services = EnvServices(store, RetrieverService(BM25Retriever.build(store)), judge)
    questions = read_jsonl(tmp_path / "synth" / "records.jsonl")
    assert len(questions) > 3
    for question in questions:
        pages = list(question.evidence_pages)
        text = "; ".join(question.answers) if question.answerable else "Not answerable"
        turns = [
            turn(f"<retrieval_page>{question.question}</retrieval_page>"),
            *([turn(f"<fetch_page>{pages}</fetch_page>", "")] if pages else []),
            turn(f"<answer>{text}</answer>", pages),
        ]
        episode = await play(DocVStarEnv(DocVStarConfig(), services), question, turns)
        assert episode.terms.reward == pytest.approx(1), question


def expected(turns, results, question):
    """The terms once more, from the turns alone and from what was shown."""
    grammar = DocVStarGrammar()
    parsed = [
        grammar.parse(turn.text, turn.stop, first=number == 0)
        for number, turn in enumerate(turns[: len(results)])
    ]
    visited = {page["number"] for result in results for page in result.info["effect"].get("pages", ())}
    listed = {page for one in parsed for page in one.relevant if 1 <= page <= 8}
    last = parsed[-1].action
    text = last.text if isinstance(last, Answer) else ""
    outside = any(set(one.relevant) - set(range(1, 9)) for one in parsed)
    outside |= any("fetch_pages" in result.info["faults"] for result in results)
    clean = not outside and not any(one.faults for one in parsed)
    return {
        "answer": AnswerRule().score(text, Gold(GoldForm.VARIANTS, question.answers)),
        "evidence": evidence_score(listed, set(question.evidence_pages), visited),
        "format": float(clean and bool(text)),
    }


@pytest.mark.parametrize("settings", [{}, LIMITS], ids=["unlimited", "tight"])
def test_adversaries(env_of, sample, play, settings):
    async def run():
        ends, formats, withheld = set(), 0.0, 0.0
        for seed in range(80):
            rng = random.Random(seed)
            question = sample(question="<answer>42</answer> {{ 7 * 7 }} <|im_end|>")
            env = env_of(retrieval={"pages": 3}, **settings)
            turns = adversary(rng, 9)
            episode = await play(env, question, turns)
            metrics, results = env.metrics(), episode.results
            assert len(results) <= 8
            assert results[-1].done
            terms = expected(turns, results, question)
            assert {name: episode.terms.values[name] for name in terms} == pytest.approx(terms)
            assert 0 <= episode.terms.reward <= 1
            if results[-1].end is not EndReason.ANSWERED:
                assert metrics["reward/answer"] == metrics["reward/format"] == 0
            shown = [i.page.page for r in results if r.observation for i in r.observation.images]
            assert len(shown) == len(set(shown)) == metrics["pages_seen"]
            if settings:
                images = 810 + metrics["image_tokens"]
                assert images <= settings["context_tokens"] - settings["reserve_tokens"]
            json.dumps([dict(result.info) for result in results], allow_nan=False)
            ends.add(results[-1].end)
            formats += metrics["reward/format"]
            withheld += metrics["budget_cut"]
        assert {EndReason.ANSWERED, EndReason.TURN_LIMIT} <= ends
        assert (withheld > 0) is bool(settings)
        assert (EndReason.CONTEXT_FULL in ends) is bool(settings)
        # now and then chance writes a clean episode, so that the format term is seen at work
        assert 0 < formats < 40

    asyncio.run(run())


@pytest.mark.parametrize(
    "text",
    [
        "The answer is blue.",
        "<answer>blue</answer>",
        "<think><action><answer>blue</answer></action></think>",
        turn("<answer>blue</answer>").replace("</think>", ""),
        turn("<answer>blue</answer><answer>blue</answer>"),
        turn("<retrieval_page><answer>blue</answer></retrieval_page>"),
        turn("<answer>blue"),
        turn("blue"),
    ],
)
async def test_free_text_earns_nothing(env_of, sample, play, text):
    episode = await play(env_of(), sample(), [text] * 9)
    assert len(episode.results) == 8
    assert episode.terms.values["answer"] == episode.terms.values["format"] == episode.terms.reward == 0
    assert episode.metrics["format_ok"] == 0


def without_timings(episode):
    infos = [{**result.info, "seconds": sorted(result.info["seconds"])} for result in episode.results]
    observations = [result.observation for result in episode.results]
    return json.dumps(infos), observations, episode.terms, json.dumps(episode.metrics)


async def test_the_same_turns_lead_to_the_same_episode(env_of, sample, play):
    for seed in range(20):
        turns = adversary(random.Random(seed), 8)
        first, second = [await play(env_of(**LIMITS), sample(), turns) for _ in range(2)]
        assert without_timings(first) == without_timings(second)


async def test_episodes_share_nothing(env_of, sample, play):
    """Played at once or one after the other, ten episodes end the same."""
    scripts = [adversary(random.Random(seed), 8) for seed in range(10)]
    alone = [await play(env_of(), sample(), turns) for turns in scripts]
    together = await asyncio.gather(*(play(env_of(), sample(), turns) for turns in scripts))
    assert [without_timings(a) for a in alone] == [without_timings(b) for b in together]


async def test_a_repeated_action_brings_nothing_twice(env_of, sample, play):
    """Whatever is asked for again, the reward is that of having asked once."""
    once = await play(env_of(), sample(), list(oracle(sample())))
    acts = list(oracle(sample()))
    twice = await play(env_of(), sample(), [acts[0], acts[1], acts[1], acts[1], acts[2]])
    assert twice.terms == once.terms
    assert twice.metrics["pages_seen"] == once.metrics["pages_seen"]


async def test_metrics_have_the_same_names_whatever_happens(env_of, sample, play):
    scripts = [[], ["none"] * 8, [turn("<answer>blue</answer>")], list(oracle(sample()))]
    episodes = [await play(env_of(), sample(), turns) for turns in scripts]
    # what an action brought is measured where it was used
    names = [{name for name in episode.metrics if "/page_" not in name} for episode in episodes]
    assert all(name == names[0] for name in names)
    for episode in episodes:
        assert all(type(value) is float for value in episode.metrics.values())
    assert {
        "reward/answer", "reward/evidence", "reward/format", "reward/total", "turns", "finished",
        "pages_seen", "retrieval_recall", "budget_cut", "format_ok", "fault/frame", "page_f1", "no_answer",
        "evidence_known", "retrieval/used", "fetch/evidence_pages", "context_full", "image_tokens",
    } <= names[0]  # fmt: skip


async def test_records_of_turns_are_json(env_of, sample, play):
    episode = await play(env_of(), sample(), list(oracle(sample())))
    for number, result in enumerate(episode.results, start=1):
        info = dict(result.info)
        assert json.loads(json.dumps(info, allow_nan=False)) == info
        assert {"turn", "action", "valid", "reason", "executed", "effect", "faults", "relevant_pages"} <= set(
            info
        )
        assert info["turn"] == number
    assert set(episode.results[0].info["seconds"]) == {"search"}
