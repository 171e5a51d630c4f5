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
from docagent_rl.envs.game import Act, Game, ScriptedAgent
from docagent_rl.envs.script import COMMON_WORDS, Move
from docagent_rl.lab.agents.finder import Finder, telling_words
from docagent_rl.lab.agents.texts import play_texts, said
from docagent_rl.records.record import Record
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.identity import environment_identity
from docagent_rl.rollout.player import new_trajectory
from docagent_rl.rollout.trajectory import Trajectory

_OPENING = (Move.FETCH, Move.READ)


class Detours(Section):
    """How often a script goes astray, as far as the turns that are left allow; each a share of its turns."""

    wrong_query: float = Field(0.25, ge=0, le=1)
    """A search first asks for something else."""
    wrong_page: float = Field(0.25, ge=0, le=1)
    """A page is opened or selected that does not hold the evidence."""
    malformed: float = Field(0.1, ge=0, le=1)
    """A turn cannot be read, and is written again properly. Never two in a row, and not where one ends the
    session (ALDEN)."""


NO_DETOURS = Detours(wrong_query=0, wrong_page=0, malformed=0)
"""The oracle's."""


@dataclass(slots=True)
class ScriptedSession:
    """One session of a script.

    Args:
        agent: writes turns.
        finder: finds queries.
        game: what the script knows.
        detours: how often it goes astray.
    """

    agent: ScriptedAgent
    finder: Finder
    game: Game
    detours: Detours
    spoilt: bool = False
    """The last turn could not be read."""

    async def write(self, trajectory: Trajectory) -> AssistantTurn:
        """The next turn of the session so far."""
        game = self.game
        if trajectory.turns:
            game.turn, game.info = len(trajectory.turns) + 1, trajectory.turns[-1].info
            self.agent.look(game)
        act = self.agent.right(game)
        spare = game.left > self.agent.needs(game)
        astray = self._astray(act) if spare else None
        act = astray or await self._worded(act)
        text = self.agent.write(act, game)
        if spare and self.agent.forgives and not self.spoilt and game.chance(self.detours.malformed):
            self.spoilt = True
            return said(_spoilt(text, game))
        self.spoilt = False
        self._note(act, meant=astray is None)
        return said(text)

    async def _worded(self, act: Act) -> Act:
        if act.move is not Move.SEARCH or act.query:
            return act
        page, game = act.pages[0], self.game
        query = await self.finder.query(game.record, page, exclude=game.seen, skip=game.tries.get(page, 0))
        return replace(act, query=query)

    def _astray(self, act: Act) -> Act | None:
        game = self.game
        if act.move is Move.SEARCH and game.chance(self.detours.wrong_query):
            return Act(Move.SEARCH, query=_wrong_query(game))
        if act.move is Move.SELECT and game.chance(self.detours.wrong_page):
            wrong = [n for n, page in enumerate(game.brought) if page not in game.gold]
            return replace(act, index=game.rng.choice(wrong)) if wrong else None
        if act.move in _OPENING and game.chance(self.detours.wrong_page):
            wrong_pages = [page for page in _pages(game) if page not in game.gold and page not in game.seen]
            return replace(act, pages=(game.rng.choice(wrong_pages),)) if wrong_pages else None
        return None

    def _note(self, act: Act, *, meant: bool) -> None:
        game = self.game
        if act.move is Move.SEARCH:
            game.searches += meant
        if act.move is Move.CROP:
            game.magnified.update(act.pages)
        if meant and act.move in (Move.SEARCH, *_OPENING):
            for page in act.pages:
                game.tries[page] = game.tries.get(page, 0) + 1


@dataclass(frozen=True, slots=True)
class ScriptPlayer:
    """A `Player` that knows the references and plays the real environments of a system.

    Without detours it is the ceiling of a system: every gold page is searched for or opened by its number,
    known boxes are magnified, the answer is the reference. A question without a reference answer cannot be
    played.

    Args:
        resources: what the environments share.
        detours: how often it goes astray.
        seed: of all its choices, with question and session.
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

    async def play(self, sample: Record, session: int) -> Trajectory:
        """See `Player`."""
        env: DocEnv = self.resources.environment(validate=self.validate)
        game = game_of(self.resources, sample, f"{self.seed} {sample.question_id} {session}")
        script = ScriptedSession(self.agent, self.finder, game, self.detours)
        # refuses questions without a reference
        _ = game.answer
        trajectory = new_trajectory(sample, session, self.resources.system.name)
        return await play_texts(env, sample, script.write, trajectory)

    async def close(self) -> None:
        """See `Player`: there is nothing to let go of."""


def game_of(resources: EnvResources, sample: Record, seed: str) -> Game:
    """What a script knows when a session begins.

    Raises:
        UserError: the document is not in the store.
    """
    turns = resources.system.max_turns(resources.env_config)
    game = Game(sample, resources.services.store, turns, random.Random(seed))
    _ = game.num_pages
    return game


def _pages(game: Game) -> list[PageRef]:
    return [PageRef(game.record.doc_id, number) for number in range(1, game.num_pages + 1)]


def _wrong_query(game: Game) -> str:
    """What somebody asks who is on the wrong track: words of another page, or of reports in general."""
    others = [page for page in _pages(game) if page not in game.gold]
    words = telling_words(game.store, game.rng.choice(others))[:6] if others else []
    telling = game.rng.sample(words, min(2, len(words))) or [game.rng.choice(COMMON_WORDS)]
    return " ".join([game.word(), *telling])


def _spoilt(text: str, game: Game) -> str:
    """A turn without its last closing tag, or plain talk."""
    end = text.rfind("</")
    if end > 0 and game.chance(0.6):
        return text[:end]
    return f"I do not know the {game.word()} yet."
