"""Scripts that write turns: which facts of a trajectory they know, and how they choose."""

import random
from types import SimpleNamespace
from typing import ClassVar

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import NO_EFFECT, Hits, NoNewPage, PagesShown
from docagent_rl.envs.script import (
    REPORT_WORDS,
    Act,
    Move,
    TurnWriter,
    WriterState,
    long_words,
)
from docagent_rl.envs.scripted_agent import AgentState, ScriptedAgent
from docagent_rl.envs.shown_page import NamedPage, ShownPage
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.envs.views import SearchScope

QUESTION = "How many people, in 2020, worked for the 'port'?"


@pytest.fixture
def sample(make_sample):
    pages = ["M#1", "K#4", "K#3"]
    boxes = {3: ((0.1, 0.2, 0.3, 0.4),)}
    return make_sample(question=QUESTION, evidence_boxes=boxes, extra={"page_ids": pages})


def pages(*names: str) -> TurnRecord:
    return TurnRecord(effect=PagesShown(tuple(ShownPage(PageRef.parse(name)) for name in names)))


def test_content_words_have_four_letters():
    assert long_words(QUESTION) == ["many", "people", "worked", "port"]
    assert long_words("Who is it, A1b2?") == list(REPORT_WORDS)


def test_a_writer_knows_what_the_last_turn_led_to(sample):
    state = WriterState(sample, 3, random.Random(0))
    assert (state.effect, state.brought) == (NO_EFFECT, [])
    assert [state.last, WriterState(sample, 3, state.rng, turn=3).last] == [False, True]
    assert WriterState(sample, 3, state.rng, turn=4).last
    state.record = pages("K#2", "a#b#10")
    assert (state.effect, state.brought) == (
        state.record.effect,
        [PageRef("K", 2), PageRef("a#b", 10)],
    )
    state.record = TurnRecord(effect=Hits((NamedPage(PageRef("K", 5)),)))
    assert state.brought == [PageRef("K", 5)]
    state.record = TurnRecord(effect=NoNewPage(3))
    assert state.brought == []


def test_the_question_s_own_pages_come_first(sample):
    state = WriterState(sample, 3, random.Random(0))
    assert state.gold == [PageRef("K", 3), PageRef("K", 4), PageRef("M", 1)]
    assert {state.word() for _ in range(99)} == set(long_words(QUESTION))
    shares = [sum(state.chance(share) for _ in range(1000)) / 1000 for share in (0.0, 0.25, 1.0)]
    assert shares == [0.0, pytest.approx(0.25, abs=0.05), 1.0]


def test_they_come_first_whatever_they_are_called(make_sample):
    sample = make_sample(
        doc_id="K", extra={"page_ids": ["A#1", "K#4", "K#3", "M#1"]}, evidence_boxes={}
    )
    found = WriterState(sample, 3, random.Random(0)).gold
    assert found == [PageRef("K", 3), PageRef("K", 4), PageRef("A", 1), PageRef("M", 1)]


def test_no_share_is_no_chance(sample):
    class Least(random.Random):
        def random(self):
            return 0.0

    state = WriterState(sample, 3, Least())
    assert [state.chance(share) for share in (0.0, 0.001)] == [False, True]


@pytest.fixture
def agent_state(sample, store):
    return AgentState(sample, 4, random.Random(0), store)


def test_an_agent_counts_turns_pages_and_tries(agent_state):
    assert [agent_state.left, agent_state.pages, agent_state.answer] == [4, range(1, 6), "blue"]
    assert (agent_state.searches, agent_state.images, agent_state.tries) == (0, 0, {})
    agent_state.turn = 4
    assert (agent_state.left, agent_state.last) == (1, True)
    first, second, third = agent_state.gold
    agent_state.look([PageRef("K", 1), first])
    agent_state.look([first])
    assert agent_state.seen == [PageRef("K", 1), first]
    assert agent_state.missing == [second, third]
    agent_state.tries[second] = 1
    assert agent_state.missing == [second, third]
    agent_state.tries[second] = 2
    assert agent_state.missing == [third]
    assert agent_state.boxes(first) == ((0.1, 0.2, 0.3, 0.4),)
    assert agent_state.boxes(second) == ()


class Searcher(ScriptedAgent):
    """An agent that searches for missing pages, then answers."""

    title = "Searcher"
    tags: ClassVar = {Move.SEARCH: "search", Move.SELECT: "select", Move.ANSWER: "answer"}
    thoughts: ClassVar = {
        Move.SEARCH: "look for {}",
        Move.SELECT: ("this {}", "that {}"),
        Move.ANSWER: "done with {}",
    }

    def legal(self, state):
        return (Move.SEARCH, Move.ANSWER)

    def right(self, state):
        return self.search_for(state) if state.missing else Act(Move.ANSWER, text=state.answer)


def test_an_agent_searches_for_the_first_page_that_is_missing(agent_state):
    agent = Searcher(SimpleNamespace(search=SimpleNamespace(scope=SearchScope.CORPUS)))
    assert (agent.corpus, agent.pages_a_search, agent.forgives) == (True, 1, True)
    assert not Searcher(SimpleNamespace(search=SimpleNamespace(scope=SearchScope.DOCUMENT))).corpus
    assert not Searcher(SimpleNamespace()).corpus
    assert agent.needs(agent_state) == 4
    assert agent.search_for(agent_state) == Act(Move.SEARCH, pages=(PageRef("K", 3),))
    agent_state.record = pages("K#3", "K#4", "M#1")
    agent.look(agent_state)
    assert agent.needs(agent_state) == 1
    assert agent.search_for(agent_state) == Act(Move.SEARCH, query=QUESTION)


def test_an_agent_magnifies_the_page_with_boxes_that_it_saw_last(agent_state):
    agent, page = Searcher(None), PageRef("K", 3)
    assert agent.to_magnify(agent_state) is None
    agent_state.look([page])
    assert agent.to_magnify(agent_state) == page
    agent_state.magnified.add(page)
    assert agent.to_magnify(agent_state) is None
    agent_state.magnified.clear()
    agent_state.look([PageRef("K", 4)])  # without boxes
    assert agent.to_magnify(agent_state) is None
    agent_state.look([PageRef("K", 1)])  # not gold
    assert agent.to_magnify(agent_state) is None


def test_turns_are_a_thought_and_a_tagged_action(agent_state):
    agent = Searcher(None)
    words = long_words(QUESTION)
    searching = agent.write(Act(Move.SEARCH, query="the port"), agent_state)
    assert searching in [
        f"<think>look for {word}</think><search>the port</search>" for word in words
    ]
    selecting = {
        agent.write(Act(Move.SELECT, index=2, text="x"), agent_state)[:11] for _ in range(50)
    }
    assert selecting == {"<think>this", "<think>that"}
    assert agent.action(Act(Move.SELECT, index=2, text="x"), agent_state) == "<select>2</select>"
    assert agent.action(Act(Move.SELECT), agent_state) == "<select>0</select>"
    assert agent.action(Act(Move.ANSWER, text="blue"), agent_state) == "<answer>blue</answer>"
    with pytest.raises(ValueError, match="Searcher has no crop"):
        agent.action(Act(Move.CROP), agent_state)


def test_a_writer_of_turns_says_what_its_blocks_hold(agent_state):
    class Silent(TurnWriter):
        tags: ClassVar = {Move.SEARCH: "search"}

    with pytest.raises(NotImplementedError):
        Silent(None).action(Act(Move.SEARCH), agent_state)
