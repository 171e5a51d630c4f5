"""What the players are given: questions of all kinds, pages that can be found, pages that lie."""

from __future__ import annotations

from collections import Counter

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import Observation, TextPart
from docagent_rl.rollout.chat import ChatCodec
from docagent_rl.synth.settings import QuestionKind
from tests.players.alden import Alden
from tests.players.corpus import INJECTIONS, QUESTIONS
from tests.players.referee import play
from tests.systems.alden.play import answer, fetch


def test_questions_are_of_all_kinds(library):
    kinds = Counter(record.extra["kind"] for record in library.questions)
    assert set(kinds) == set(QuestionKind)
    assert min(kinds.values()) >= 5
    assert sum(len(record.evidence_pages) > 1 for record in library.questions) >= 5
    assert sum(bool(record.evidence_boxes) for record in library.questions) >= 45
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
        assert [line for line in INJECTIONS if " ".join(line.split()) not in text] == []


async def test_page_text_becomes_no_control_token(hostile, hostile_services, processor):
    """The result of a fetch has the special tokens of an empty one: none comes from the page."""
    env = Alden("paper", "hybrid").make(hostile_services)
    game = await play(env, hostile.questions[0], [fetch("text, 1"), answer("x")])
    result = game.results[0].observation
    assert "<|im_end|>" in result.messages[0].parts[0].text
    codec = ChatCodec(processor.tokenizer, processor)
    special = codec.control_ids | {codec.end_of_turn_id}
    empty = Observation.user(TextPart("<result>\n</result>"))
    for closed in (True, False):
        found, wanted = (
            [i for i in codec.observation_ids(shown, closed=closed) if i in special]
            for shown in (result, empty)
        )
        assert found == wanted != []
