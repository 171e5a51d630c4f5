"""Players without a model: the oracle, the oracle with detours, and one that acts at random."""

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
from docagent_rl.envs.script import COMMON_WORDS, Act, Move, long_words
from docagent_rl.envs.scripted_agent import AgentState, ScriptedAgent
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import EnvServices
from docagent_rl.lab.agents.texts import EnvPlayer, whole_turn
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.samples.sample import Sample

_OPENING = (Move.FETCH, Move.READ)
_LONGEST_WORD = 24
_ANSWERS = ("yes", "no", "1", "2", "3", "4", "5", "10", NOT_ANSWERABLE)


class Detours(Section):
    """Shares of a script's turns that go astray, as far as the turns that are left allow."""

    wrong_query: float = Field(0.25, ge=0, le=1)
    """A search first asks for something else."""
    wrong_page: float = Field(0.25, ge=0, le=1)
    """A page is opened or selected that does not hold the evidence."""
    malformed: float = Field(0.1, ge=0, le=1)
    """A turn cannot be read, and is written again properly. Never two in a row, and not where one
    ends the trajectory (ALDEN).
    """


NO_DETOURS = Detours(wrong_query=0, wrong_page=0, malformed=0)
"""The oracle's."""


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
    """Return the likeliest query of a reader that brings a page up, else the one that ranks it
    best.

    A reader would write the question; where the retriever of `services` does not find the page by
    it, words of the page itself are added. These searches are none of a trajectory. A search shows
    `shown` new pages, with `corpus` of all documents; `exclude` are pages that are known already,
    `skip` the number of queries, from the likeliest, that were tried.
    """
    best = ""
    place = None
    # reads all pages of a document once
    candidates = await asyncio.to_thread(lambda: list(_queries(sample, page, services.store)))
    for query in candidates[min(skip, len(candidates) - 1) :]:
        doc_id = None if corpus else sample.doc_id
        top_k = shown + len(exclude) + 4
        with noting():
            hits = await services.retriever.search(query, doc_id=doc_id, top_k=top_k)
        fresh = [hit.ref for hit in hits if hit.ref not in exclude]
        if page in fresh and (place is None or fresh.index(page) < place):
            best = query
            place = fresh.index(page)
        if place is not None and place < shown:
            break
    return best or candidates[-1]


def _queries(sample: Sample, page: PageRef, store: DocumentStore) -> Iterator[str]:
    own = long_words(sample.question)
    telling = telling_words(store, page)
    yield sample.question
    yield " ".join(own)
    yield " ".join([*own[:4], *telling[:2]])
    yield " ".join(telling[:4]) or sample.question
    yield " ".join(telling[:10]) or sample.question


def telling_words(store: DocumentStore, page: PageRef) -> list[str]:
    """Return the words of a page that few pages of its document hold, the rarest first."""
    counts = _page_counts(store, page.doc_id)
    return sorted(_words(store.page(page).text()), key=lambda word: (counts[word], word))


@lru_cache(maxsize=64)
def _page_counts(store: DocumentStore, doc_id: str) -> Counter[str]:
    """Return on how many pages of a document each word is."""
    counts: Counter[str] = Counter()
    for number in range(1, store.document(doc_id).num_pages + 1):
        counts.update(_words(store.page(PageRef(doc_id, number)).text()))
    return counts


def _words(text: str) -> set[str]:
    found = (word.strip(".,;:!?\"'()[]<>{}%$") for word in text.split())
    return {word for word in found if 4 <= len(word) <= _LONGEST_WORD and word.isalnum()}


@dataclass(slots=True)
class ScriptedRollout:
    """One trajectory of a script."""

    agent: ScriptedAgent
    services: EnvServices
    state: AgentState
    detours: Detours
    was_malformed: bool = False
    """The last turn could not be read."""

    async def write(self, trajectory: Trajectory) -> TrajectoryTurn:
        """Return the next turn of the trajectory so far."""
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
    """A `Player` over the scripted agent of a system; `seed` is of all its choices."""

    def __init__(self, resources: EnvResources, *, seed: int = 0, validate: bool = True) -> None:
        super().__init__(resources, validate=validate)
        self.seed = seed
        self.agent = resources.system.make_agent(resources.env_config)


class ScriptPlayer(_AgentPlayer):
    """A `Player` that knows the references and plays the real environments of a system.

    Without detours it is the ceiling of a system: every gold page is searched for or opened by its
    number, known boxes are magnified, the answer is the reference. A question without a reference
    answer cannot be played.
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
        return self.identified(name, detours=self.detours.model_dump(), seed=self.seed)

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a question."""
        state = state_of(self.resources, sample, f"{self.seed} {sample.question_id} {number}")
        _ = state.answer  # refuses questions without a reference
        script = ScriptedRollout(self.agent, self.resources.services, state, self.detours)
        return await self.played(sample, number, script.write)


class ChancePlayer(_AgentPlayer):
    """A `Player` that takes any legal action, with any argument: the floor of a system.

    It sees the question and the number of pages, and never the references.
    """

    @property
    def identity(self) -> Mapping[str, Any]:
        """Seed and environments."""
        return self.identified("chance", seed=self.seed)

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """Play one trajectory of a question."""
        state = state_of(
            self.resources, sample, f"chance {self.seed} {sample.question_id} {number}"
        )

        async def write(trajectory: Trajectory) -> TrajectoryTurn:
            _look(self.agent, state, trajectory)
            return whole_turn(self.agent.write(any_act(self.agent, state), state))

        return await self.played(sample, number, write)


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
        return Act(move, pages=(PageRef(state.sample.doc_id, rng.randint(1, state.num_pages)),))
    if move is Move.CROP:
        left = rng.uniform(0, 0.7)
        top = rng.uniform(0, 0.7)
        box = (left, top, rng.uniform(left + 0.2, 1), rng.uniform(top + 0.2, 1))
        return Act(move, boxes=(box,))
    if move is Move.ANSWER:
        return Act(move, text=rng.choice((*_ANSWERS, rng.choice(long_words(question)))))
    return Act(move)


def state_of(resources: EnvResources, sample: Sample, seed: str) -> AgentState:
    """Return the knowledge of a script when a trajectory begins.

    Raises:
        UserError: the document is not in the store.
    """
    turns = resources.system.max_turns(resources.env_config)
    state = AgentState(sample, turns, random.Random(seed), resources.services.store)
    _ = state.num_pages  # looks into the store
    return state


def _look(agent: ScriptedAgent, state: AgentState, trajectory: Trajectory) -> None:
    """Have an agent look at what its last turn brought."""
    if trajectory.turns:
        state.turn = len(trajectory.turns) + 1
        state.record = trajectory.turns[-1].record
        agent.look(state)


def _wrong_pages(state: AgentState) -> list[PageRef]:
    pages = (PageRef(state.sample.doc_id, number) for number in range(1, state.num_pages + 1))
    return [page for page in pages if page not in state.gold]


def _wrong_query(state: AgentState) -> str:
    """Return words of another page, or of reports in general."""
    others = _wrong_pages(state)
    words = telling_words(state.store, state.rng.choice(others))[:6] if others else []
    telling = state.rng.sample(words, min(2, len(words))) or [state.rng.choice(COMMON_WORDS)]
    return " ".join([state.word(), *telling])


def _malformed(text: str, state: AgentState) -> str:
    """Return a turn without its last closing tag, or plain talk."""
    end = text.rfind("</")
    if end > 0 and state.chance(0.6):
        return text[:end]
    return f"I do not know the {state.word()} yet."
