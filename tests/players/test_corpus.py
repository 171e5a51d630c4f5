"""What the players are given: questions of all kinds, pages that can be found, pages that lie."""

from __future__ import annotations

from collections import Counter

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import Observation, TextPart
from docagent_rl.records.record import Record
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.synth.settings import QuestionKind
from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.env import AldenEnv
from tests.players.corpus import INJECTIONS, QUESTIONS
from tests.players.referee import play
from tests.systems.alden.play import answer, fetch


def test_questions_are_of_all_kinds(library):
    kinds = Counter(record.extra["kind"] for record in library.questions)
    assert set(kinds) == set(QuestionKind)
    assert min(kinds.values()) >= 5
    assert sum(not record.answers for record in library.questions) >= 10
    assert sum(len(record.evidence_pages) > 1 for record in library.questions) >= 10
    assert sum(bool(record.evidence_boxes) for record in library.questions) >= 150
    assert len({record.question_id for record in library.questions}) == QUESTIONS


def test_every_evidence_page_is_found_by_its_own_words(library):
    for record in library.questions:
        for page in record.gold_pages:
            assert library.hits(library.query(*page), 1) == [page]
            assert library.hits(library.own_query(*page), 1, record.doc_id) == [page]
            assert len(library.queries(*page)) >= 4


def test_every_hostile_page_holds_every_injection(hostile):
    for doc_id, number in hostile.words:
        text = " ".join(hostile.store.page(PageRef(doc_id, number)).text().split())
        for line in INJECTIONS:
            assert " ".join(line.split()) in text


@pytest.mark.parametrize("closed", [True, False])
async def test_page_text_becomes_no_control_token(hostile, hostile_services, processor, closed):
    """The result of a fetch has the special tokens of an empty one: none comes from the page."""
    config = AldenConfig.for_variant("paper", modality="hybrid", search={"text_ranking": "shared"})
    record: Record = next(record for record in hostile.questions if record.answers)
    game = await play(AldenEnv(config, hostile_services), record, [fetch("text, 1"), answer("x")])
    result = game.results[0].observation
    assert "<|im_end|>" in result.messages[0].parts[0].text
    codec = ChatCodec(processor.tokenizer, processor)
    special = codec.control_ids | {codec.end_of_turn_id}

    def specials(observation):
        return [i for i in codec.observation_ids(observation, closed=closed) if i in special]

    assert specials(result) == specials(Observation.user(TextPart("<result>\n</result>")))
    assert specials(result)
