"""Players without a model: the oracle, the oracle with detours, and a random agent."""

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.checks import pages_outside
from docagent_rl.envs.script import Act, Move, long_words
from docagent_rl.envs.scripted_agent import AgentState, ScriptedAgent
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import EnvServices
from docagent_rl.lab.agents.random_turns import COMMON_WORDS
from docagent_rl.lab.agents.texts import EnvPlayer, whole_turn
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.samples.sample import Sample

_OPENING = (Move.FETCH, Move.READ)
_LONGEST_WORD = 24
_ANSWERS = ("yes", "no", "1", "2", "3", "4", "5", "10", NOT_ANSWERABLE)


class Detours(Section):
    """The shares of a script's turns that go astray, as long as enough turns are left."""

    wrong_query: float = Field(0.25, ge=0, le=1)
    """Share of searches preceded by a search for something else."""
    wrong_page: float = Field(0.25, ge=0, le=1)
    """Share of page openings and selections preceded by one of a page without the evidence."""
    malformed: float = Field(0.1, ge=0, le=1)
    """Share of turns that are first written in a form that cannot be parsed, then correctly. Never
    two in a row, and never where one would end the trajectory (ALDEN).
    """


NO_DETOURS = Detours(wrong_query=0, wrong_page=0, malformed=0)
"""The settings of the oracle."""


async def page_query(
    services: EnvServices,
    sample: Sample,
    page: PageRef,
    *,
    shown: int,
    corpus: bool = False,
    exclude: Collection[PageRef] = (),
    skip: int = 0,
) -> str:
    """Return the most natural query that brings up a page, else the one that ranks it best.

    A reader would use the question as the query; where the retriever of `services` does not find
    the page with it, words from the page itself are added. These searches are not part of any
    trajectory.

    Args:
        services: the store and the retriever.
        sample: the question.
        page: the page to be found.
        shown: how many new pages a search shows.
        corpus: search all documents.
        exclude: pages that are already known.
        skip: how many of the queries, starting with the most natural, were already tried.
    """
    best = ""
    best_rank = None
    # in a thread: reads all pages of a document once
    candidates = await asyncio.to_thread(lambda: list(_queries(sample, page, services.store)))
    outside = pages_outside(sample, services.store)
    for query in candidates[min(skip, len(candidates) - 1) :]:
        doc_id = None if corpus else sample.doc_id
        top_k = shown + len(exclude) + 4
        with noting():
            hits = await services.retriever.search(
                query, doc_id=doc_id, top_k=top_k, exclude=outside
            )
        fresh = [hit.ref for hit in hits if hit.ref not in exclude]
        if page in fresh and (best_rank is None or fresh.index(page) < best_rank):
            best = query
            best_rank = fresh.index(page)
        if best_rank is not None and best_rank < shown:
            break
    return best or candidates[-1]


def _queries(sample: Sample, page: PageRef, store: DocumentStore) -> Iterator[str]:
    own = long_words(sample.question)
    distinctive = distinctive_words(store, page)
    yield sample.question
    yield " ".join(own)
    yield " ".join([*own[:4], *distinctive[:2]])
    yield " ".join(distinctive[:4]) or sample.question
    yield " ".join(distinctive[:10]) or sample.question


def distinctive_words(store: DocumentStore, page: PageRef) -> list[str]:
    """Return the words of a page that occur on few pages of its document, the rarest first."""
    counts = _page_counts(store, page.doc_id)
    return sorted(_words(store.page(page).text()), key=lambda word: (counts[word], word))


@lru_cache(maxsize=64)
def _page_counts(store: DocumentStore, doc_id: str) -> Counter[str]:
    """Return the number of pages of a document on which each word occurs."""
    counts: Counter[str] = Counter()
    for number in range(1, store.document(doc_id).num_pages + 1):
        counts.update(_words(store.page(PageRef(doc_id, number)).text()))
    return counts


def _words(text: str) -> set[str]:
    found = (word.strip(".,;:!?\"'()[]<>{}%$") for word in text.split())
    return {word for word in found if 4 <= len(word) <= _LONGEST_WORD and word.isalnum()}


@dataclass(slots=True)
class ScriptedRollout:
    """One trajectory of a scripted agent."""

    agent: ScriptedAgent
    services: EnvServices
    state: AgentState
    detours: Detours
    was_malformed: bool = False
    """The last turn was malformed on purpose."""

    async def write(self, trajectory: Trajectory) -> TrajectoryTurn:
        """Return the next turn, given the trajectory so far."""
        state = self.state
        _look(self.agent, state, trajectory)
        act = self.agent.right(state)
        spare = state.left > self.agent.needs(state)
        detour = self._detour(act) if spare else None
        act = detour or await self._with_query(act)
        text = self.agent.write(act, state)
        if (
            spare
            and self.agent.forgives
            and not self.was_malformed
            and state.chance(self.detours.malformed)
        ):
            self.was_malformed = True
            return whole_turn(_malformed(text, state))
        self.was_malformed = False
        self._note(act, intended=detour is None)
        return whole_turn(text)

    async def _with_query(self, act: Act) -> Act:
        if act.move is not Move.SEARCH or act.query:
            return act
        page = act.pages[0]
        state = self.state
        agent = self.agent
        tried = state.tries.get(page, 0)
        where = {
            "shown": agent.pages_a_search,
            "corpus": agent.corpus,
            "exclude": state.seen,
            "skip": tried,
        }
        return replace(act, query=await page_query(self.services, state.sample, page, **where))

    def _detour(self, act: Act) -> Act | None:
        state = self.state
        if act.move is Move.SEARCH and state.chance(self.detours.wrong_query):
            return Act(Move.SEARCH, query=_wrong_query(state))
        if act.move is Move.SELECT and state.chance(self.detours.wrong_page):
            wrong = [n for n, page in enumerate(state.brought) if page not in state.gold]
            return replace(act, index=state.rng.choice(wrong)) if wrong else None
        if act.move in _OPENING and state.chance(self.detours.wrong_page):
            wrong_pages = [page for page in _wrong_pages(state) if page not in state.seen]
            return replace(act, pages=(state.rng.choice(wrong_pages),)) if wrong_pages else None
        return None

    def _note(self, act: Act, *, intended: bool) -> None:
        state = self.state
        if act.move is Move.SEARCH:
            state.searches += intended
        if act.move is Move.CROP:
            state.magnified.update(act.pages)
        if intended and act.move in (Move.SEARCH, *_OPENING):
            for page in act.pages:
                state.tries[page] = state.tries.get(page, 0) + 1


class _AgentPlayer(EnvPlayer):
    """A `Player` for the scripted agent of a system; `seed` determines all its random choices."""

    def __init__(self, resources: EnvResources, *, seed: int = 0, validate: bool = True) -> None:
        super().__init__(resources, validate=validate)
        self.seed = seed
        self.agent = resources.system.make_agent(resources.env_config)


class ScriptPlayer(_AgentPlayer):
    """A `Player` that knows the references and plays the real environments of a system.

    Without detours it is the upper bound of a system: every gold page is searched for or opened by
    its number, known boxes are magnified, and the answer is the reference. A question without a
    reference answer cannot be played.
    """

    def __init__(
        self,
        resources: EnvResources,
        detours: Detours = NO_DETOURS,
        seed: int = 0,
        validate: bool = True,
    ) -> None:
        super().__init__(resources, seed=seed, validate=validate)
        self.detours = detours

    @property
    def identity(self) -> Mapping[str, Any]:
        """Detours, seed and environments."""
        name = "oracle" if self.detours == NO_DETOURS else "detours"
        return self.identity_of(name, detours=self.detours.model_dump(), seed=self.seed)

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a sample."""
        state = state_of(self.resources, sample, f"{self.seed} {sample.question_id} {number}")
        _ = state.answer  # raises for a question without a reference
        script = ScriptedRollout(self.agent, self.resources.services, state, self.detours)
        return await self.play_turns(sample, number, script.write)


class ChancePlayer(_AgentPlayer):
    """A `Player` that takes any legal action with any arguments: the lower bound of a system.

    It sees the question and the number of pages, but never the references.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """Seed and environments."""
        return self.identity_of("chance", seed=self.seed)

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a sample."""
        state = state_of(
            self.resources, sample, f"chance {self.seed} {sample.question_id} {number}"
        )

        async def write(trajectory: Trajectory) -> TrajectoryTurn:
            _look(self.agent, state, trajectory)
            return whole_turn(self.agent.write(any_act(self.agent, state), state))

        return await self.play_turns(sample, number, write)


def any_act(agent: ScriptedAgent, state: AgentState) -> Act:
    """Return a legal action with arguments drawn at random."""
    rng = state.rng
    question = state.sample.question
    move = rng.choice(agent.legal(state))
    if move is Move.SEARCH:
        words = [*long_words(question), *COMMON_WORDS]
        return Act(move, query=" ".join(rng.sample(words, min(3, len(words)))))
    if move is Move.SELECT:
        return Act(move, index=rng.randrange(max(1, len(state.brought))))
    if move in _OPENING:
        return Act(move, pages=(PageRef(state.sample.doc_id, rng.choice(state.pages)),))
    if move is Move.CROP:
        left = rng.uniform(0, 0.7)
        top = rng.uniform(0, 0.7)
        box = (left, top, rng.uniform(left + 0.2, 1), rng.uniform(top + 0.2, 1))
        return Act(move, boxes=(box,))
    if move is Move.ANSWER:
        return Act(move, text=rng.choice((*_ANSWERS, rng.choice(long_words(question)))))
    return Act(move)


def state_of(resources: EnvResources, sample: Sample, seed: str) -> AgentState:
    """Return what a script knows when a trajectory begins.

    Raises:
        UserError: the document is not in the store, or has no such window.
    """
    turns = resources.system.max_turns(resources.env_config)
    state = AgentState(sample, turns, random.Random(seed), resources.services.store)
    _ = state.pages  # raises if the store lacks the document
    return state


def _look(agent: ScriptedAgent, state: AgentState, trajectory: Trajectory) -> None:
    """Have the agent look at the result of its last turn."""
    if trajectory.turns:
        state.turn = len(trajectory.turns) + 1
        state.record = trajectory.turns[-1].record
        agent.look(state)


def _wrong_pages(state: AgentState) -> list[PageRef]:
    pages = (PageRef(state.sample.doc_id, number) for number in state.pages)
    return [page for page in pages if page not in state.gold]


def _wrong_query(state: AgentState) -> str:
    """Return words from another page, or words common in reports."""
    others = _wrong_pages(state)
    words = distinctive_words(state.store, state.rng.choice(others))[:6] if others else []
    drawn = state.rng.sample(words, min(2, len(words))) or [state.rng.choice(COMMON_WORDS)]
    return " ".join([state.word(), *drawn])


def _malformed(text: str, state: AgentState) -> str:
    """Return a turn without its last closing tag, or prose without any action."""
    end = text.rfind("</")
    if end > 0 and state.chance(0.6):
        return text[:end]
    return f"I do not know the {state.word()} yet."
