"""Players that know the references: the oracle, and the oracle with detours."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, DocEnv
from docagent_rl.envs.script import COMMON_WORDS, Move
from docagent_rl.envs.scripted_agent import Act, AgentState, ScriptedAgent
from docagent_rl.lab.agents.finder import Finder, telling_words
from docagent_rl.lab.agents.texts import play_texts, said
from docagent_rl.rollout.env_resources import EnvResources, environment_identity
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample

_OPENING = (Move.FETCH, Move.READ)


class Detours(Section):
    """How often a script goes astray, as far as the turns that are left allow; each a share of its turns."""

    wrong_query: float = Field(0.25, ge=0, le=1)
    """A search first asks for something else."""
    wrong_page: float = Field(0.25, ge=0, le=1)
    """A page is opened or selected that does not hold the evidence."""
    malformed: float = Field(0.1, ge=0, le=1)
    """A turn cannot be read, and is written again properly. Never two in a row, and not where one ends the
    trajectory (ALDEN)."""


NO_DETOURS = Detours(wrong_query=0, wrong_page=0, malformed=0)
"""The oracle's."""


@dataclass(slots=True)
class ScriptedRollout:
    """One trajectory of a script.

    Args:
        agent: writes turns.
        finder: finds queries.
        state: what the script knows.
        detours: how often it goes astray.
    """

    agent: ScriptedAgent
    finder: Finder
    state: AgentState
    detours: Detours
    spoilt: bool = False
    """The last turn could not be read."""

    async def write(self, trajectory: Trajectory) -> AssistantTurn:
        """The next turn of the trajectory so far."""
        state = self.state
        if trajectory.turns:
            state.turn, state.info = len(trajectory.turns) + 1, trajectory.turns[-1].info
            self.agent.look(state)
        act = self.agent.right(state)
        spare = state.left > self.agent.needs(state)
        astray = self._astray(act) if spare else None
        act = astray or await self._worded(act)
        text = self.agent.write(act, state)
        if spare and self.agent.forgives and not self.spoilt and state.chance(self.detours.malformed):
            self.spoilt = True
            return said(_spoilt(text, state))
        self.spoilt = False
        self._note(act, meant=astray is None)
        return said(text)

    async def _worded(self, act: Act) -> Act:
        if act.move is not Move.SEARCH or act.query:
            return act
        page, state = act.pages[0], self.state
        query = await self.finder.query(state.sample, page, exclude=state.seen, skip=state.tries.get(page, 0))
        return replace(act, query=query)

    def _astray(self, act: Act) -> Act | None:
        state = self.state
        if act.move is Move.SEARCH and state.chance(self.detours.wrong_query):
            return Act(Move.SEARCH, query=_wrong_query(state))
        if act.move is Move.SELECT and state.chance(self.detours.wrong_page):
            wrong = [n for n, page in enumerate(state.brought) if page not in state.gold]
            return replace(act, index=state.rng.choice(wrong)) if wrong else None
        if act.move in _OPENING and state.chance(self.detours.wrong_page):
            wrong_pages = [
                page for page in _pages(state) if page not in state.gold and page not in state.seen
            ]
            return replace(act, pages=(state.rng.choice(wrong_pages),)) if wrong_pages else None
        return None

    def _note(self, act: Act, *, meant: bool) -> None:
        state = self.state
        if act.move is Move.SEARCH:
            state.searches += meant
        if act.move is Move.CROP:
            state.magnified.update(act.pages)
        if meant and act.move in (Move.SEARCH, *_OPENING):
            for page in act.pages:
                state.tries[page] = state.tries.get(page, 0) + 1


@dataclass(frozen=True, slots=True)
class ScriptPlayer:
    """A `Player` that knows the references and plays the real environments of a system.

    Without detours it is the ceiling of a system: every gold page is searched for or opened by its number,
    known boxes are magnified, the answer is the reference. A question without a reference answer cannot be
    played.

    Args:
        resources: what the environments share.
        detours: how often it goes astray.
        seed: of all its choices, with question and trajectory.
        validate: environments are those of an evaluation.
    """

    resources: EnvResources
    detours: Detours = NO_DETOURS
    seed: int = 0
    validate: bool = True
    agent: ScriptedAgent = field(init=False)
    finder: Finder = field(init=False)

    def __post_init__(self) -> None:
        agent = self.resources.system.make_agent(self.resources.env_config)
        object.__setattr__(self, "agent", agent)
        finder = Finder(self.resources.services, agent.pages_a_search, agent.corpus)
        object.__setattr__(self, "finder", finder)

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Player`."""
        return {
            "player": "oracle" if self.detours == NO_DETOURS else "detours",
            "detours": self.detours.model_dump(),
            "seed": self.seed,
            "environment": environment_identity(self.resources, validate=self.validate),
        }

    async def play(self, sample: Sample, number: int) -> Trajectory:
        """See `Player`."""
        env: DocEnv = self.resources.environment(validate=self.validate)
        state = state_of(self.resources, sample, f"{self.seed} {sample.question_id} {number}")
        script = ScriptedRollout(self.agent, self.finder, state, self.detours)
        # refuses questions without a reference
        _ = state.answer
        trajectory = new_trajectory(sample, number, self.resources.system.name)
        return await play_texts(env, sample, script.write, trajectory)

    async def close(self) -> None:
        """See `Player`: there is nothing to let go of."""


def state_of(resources: EnvResources, sample: Sample, seed: str) -> AgentState:
    """What a script knows when a trajectory begins.

    Raises:
        UserError: the document is not in the store.
    """
    turns = resources.system.max_turns(resources.env_config)
    state = AgentState(sample, resources.services.store, turns, random.Random(seed))
    _ = state.num_pages
    return state


def _pages(state: AgentState) -> list[PageRef]:
    return [PageRef(state.sample.doc_id, number) for number in range(1, state.num_pages + 1)]


def _wrong_query(state: AgentState) -> str:
    """What somebody asks who is on the wrong track: words of another page, or of reports in general."""
    others = [page for page in _pages(state) if page not in state.gold]
    words = telling_words(state.store, state.rng.choice(others))[:6] if others else []
    telling = state.rng.sample(words, min(2, len(words))) or [state.rng.choice(COMMON_WORDS)]
    return " ".join([state.word(), *telling])


def _spoilt(text: str, state: AgentState) -> str:
    """A turn without its last closing tag, or plain talk."""
    end = text.rfind("</")
    if end > 0 and state.chance(0.6):
        return text[:end]
    return f"I do not know the {state.word()} yet."
