"""Random turns of a script, and the distribution of their moves."""

import dataclasses
import random
from collections import Counter
from typing import ClassVar

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import PagesShown
from docagent_rl.envs.script import Act, Move, Script
from docagent_rl.envs.shown_page import ShownPage
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.lab.agents import random_turns
from docagent_rl.lab.agents.random_turns import (
    COMMON_WORDS,
    OBJECTS,
    QuestionStatistics,
    RandomContext,
    random_turn,
)

QUESTION = "How many people, in 2020, worked for the 'port'?"


@pytest.fixture
def sample(make_sample):
    return make_sample(question=QUESTION, extra={"page_ids": ["M#1", "K#4", "K#3"]})


def asked(make_sample, number: int, question: str, answer: str, *pages: int):
    return make_sample(
        question_id=f"q{number}",
        question=question,
        answers=(answer,),
        evidence_pages=pages,
        extra={},
    )


def test_statistics_are_over_questions(make_sample):
    samples = [
        asked(make_sample, 1, "Where is the port, port, Kantora?", "north", 1, 2),
        asked(make_sample, 2, "Where is the port of Kantora?", "north", 2),
        asked(make_sample, 3, "Which port lies near Kantora?", "south", 2),
        asked(make_sample, 4, "Which town?", "west"),
        asked(make_sample, 5, "Which town?", "south"),
        asked(make_sample, 6, "Whose?", "north"),
        asked(make_sample, 7, "Whose?", "never"),
    ]
    found = QuestionStatistics.of(iter(samples))
    # three questions hold it, whatever else one of them says twice; names are no words
    assert found.words == {"port"}
    assert found.answers == ("north", "south", "west")
    assert found.pages == {1: 1, 2: 3}


@pytest.fixture
def context(sample):
    statistics = QuestionStatistics(frozenset({"port", "people"}), ("blue", "red"), {2: 9, 3: 4})
    return RandomContext(sample, 5, random.Random(0), 6, statistics)


def test_a_script_s_words_are_familiar_ones(context):
    assert context.words == ["people", "port"]
    words = Counter(context.word() for _ in range(400))
    assert set(words) <= {*OBJECTS, "people", "port"}
    assert 120 < words["people"] + words["port"] < 280
    context.sample = dataclasses.replace(context.sample, question="Which harbours exist?")
    assert context.words == ["Which", "harbours", "exist"]


def test_queries_hold_common_words_and_now_and_then_one_of_the_question(context):
    queries = [context.query() for _ in range(600)]
    own = [
        [word for word in query if word not in COMMON_WORDS or word == "people"]
        for query in queries
    ]
    lengths = Counter(len(query) for query in queries)
    assert set(lengths) == {1, 2, 3}
    assert 0.15 < sum("port" in words for words in own) / 600 * 2 < 0.35
    assert all(set(query) <= {*COMMON_WORDS, "port"} for query in queries)


def test_pages_of_a_script(context):
    absent = {context.absent_page() for _ in range(300)}
    assert absent == set(range(7, 16))
    drawn = [context.likely_pages(2) for _ in range(400)]
    assert all(len(set(pages)) == 2 and pages == sorted(pages) for pages in drawn)
    counts = Counter(page for pages in drawn for page in pages)
    assert set(counts) == set(range(1, 7))
    assert counts[2] > counts[3] > 300
    assert max(counts[page] for page in (1, 4, 5, 6)) < 40
    # of a weight of 13.6, in which each page has a tenth beside its questions
    alone = [page for _ in range(4000) for page in context.likely_pages(1) if page not in (2, 3)]
    assert 0.022 < len(alone) / 4000 < 0.038
    assert context.likely_pages(99) == [1, 2, 3, 4, 5, 6]
    shown = (ShownPage(PageRef("K", 2)), ShownPage(PageRef("K", 5)))
    context.record = TurnRecord(effect=PagesShown(shown))
    assert context.shown == [2, 5]


def test_answers_are_frequent_ones_and_half_of_them_right(context):
    answers = Counter(context.answer() for _ in range(1000))
    assert answers["blue"] + answers["red"] == 1000
    assert 0.70 < answers["blue"] / 1000 < 0.80  # half, and half of the other half
    context.statistics = QuestionStatistics(frozenset(), ("green", "red"), {})
    answers = Counter(context.answer() for _ in range(200))
    assert set(answers) == {"green", "red"}


def test_corners_are_a_box_of_two_and_three_digits(context):
    for _ in range(200):
        left, top, right, bottom = context.corners()
        assert {left, top} <= {10, 20, 30, 40}
        assert {right, bottom} <= {*range(110, 200, 10), 210}


class Chatty(Script):
    title = "Chatty"
    tags: ClassVar = {
        Move.SEARCH: "search",
        Move.CROP: "bbox",
        Move.FINISH: "finish",
        Move.ANSWER: "answer",
    }
    thoughts: ClassVar = dict.fromkeys(
        (Move.SEARCH, Move.CROP, Move.FINISH, Move.ANSWER), "about {}"
    )

    def moves(self, context):
        return {Move.SEARCH: 3.0, Move.CROP: 1.0}


class Silent(Chatty):
    """An agent that does not answer by itself."""

    tags: ClassVar = {Move.SEARCH: "search", Move.CROP: "bbox", Move.FINISH: "finish"}


def test_a_script_moves_by_its_weights_and_answers_at_last(context):
    writer = Chatty(None)
    moves = Counter(random_turn(writer, context).move for _ in range(800))
    assert set(moves) == {Move.SEARCH, Move.CROP, None}
    assert 2.2 < moves[Move.SEARCH] / moves[Move.CROP] < 4.2
    assert 0.04 < moves[None] / 800 < 0.08  # six of a hundred are spoilt
    context.turn = 5
    assert {random_turn(writer, context).move for _ in range(50)} <= {Move.ANSWER, None}
    silent = {random_turn(Silent(None), context).move for _ in range(50)}
    assert silent <= {Move.SEARCH, Move.CROP, None}


def test_spoilt_turns_lack_their_end_or_are_plain_talk(context, monkeypatch):
    monkeypatch.setattr(random_turns, "MALFORMED_SHARE", 1.0)
    lines = [random_turn(Chatty(None), context) for _ in range(400)]
    assert {line.move for line in lines} == {None}
    cut = [line.text for line in lines if line.text.startswith("<think>")]
    assert all("</think><" in text and not text.endswith(">") for text in cut)
    assert all(line.text.startswith("I do not know the ") for line in lines if line.text not in cut)
    assert 0.5 < len(cut) / 400 < 0.7


def test_arguments_of_a_script(context):
    writer = Chatty(None)
    assert set(writer.argument(Act(Move.SEARCH), context).split()) <= {
        *COMMON_WORDS,
        "port",
        "people",
    }
    assert len(writer.argument(Act(Move.CROP), context)) == 4
    assert writer.argument(Act(Move.ANSWER), context) in ("blue", "red")
    assert writer.argument(Act(Move.FINISH), context) == ""
    config = object()
    assert Chatty.configs(config) == (config,)
