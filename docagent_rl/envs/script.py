"""Agents without a model: their view of a trajectory, and how they write turns.

`ScriptedAgent` knows the references and writes the turns of the oracle, of oracles with detours and
of the random agent. `Script` writes random turns, on which a tiny model is warmed up.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from docagent_rl.actions.base import Box
from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import Effect
from docagent_rl.envs.turn_record import NO_RECORD, TurnRecord
from docagent_rl.samples.sample import Sample

ConfigT = TypeVar("ConfigT")

REPORT_WORDS = ("revenue", "income", "profit", "cost", "expense", "budget", "margin", "sales")
"""Words that stand in for those of a question without long words."""


class Move(StrEnum):
    """The action of a well-formed turn."""

    SEARCH = "search"
    FETCH = "fetch"
    SELECT = "select"
    CROP = "crop"
    READ = "read"
    FINISH = "finish"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Act:
    """The action that a turn should contain; a script sets only the move.

    Args:
        move: the kind of the action.
        query: the query of a search.
        pages: the pages to open, or the page that a search is meant to find.
        index: the index of a candidate, from 0.
        boxes: regions of the most recent page, as fractions of it.
        text: the text of an answer.
    """

    move: Move
    query: str = ""
    pages: tuple[PageRef, ...] = ()
    index: int = 0
    boxes: tuple[Box, ...] = ()
    text: str = ""


@dataclass(slots=True)
class WriterState:
    """A turn writer's view of a trajectory.

    `turn` is the number of the turn to write; `record` is the record of the previous turn.
    """

    sample: Sample
    turns: int
    rng: random.Random
    turn: int = field(default=1, kw_only=True)
    record: TurnRecord = field(default=NO_RECORD, kw_only=True)

    @property
    def last(self) -> bool:
        """Return whether this is the last turn."""
        return self.turn >= self.turns

    @property
    def effect(self) -> Effect:
        """The effect of the previous turn; no effect before the first turn."""
        return self.record.effect

    @property
    def brought(self) -> list[PageRef]:
        """Pages that the previous turn showed, or else the pages that it found."""
        return [shown.page for shown in self.effect.brought] or list(self.effect.found)

    @property
    def gold(self) -> list[PageRef]:
        """Pages with evidence, those of the question's own document first."""
        own = self.sample.doc_id
        found = (PageRef(doc_id, page) for doc_id, page in self.sample.gold_pages)
        return sorted(found, key=lambda ref: (ref.doc_id != own, ref))

    def word(self) -> str:
        """Return a word of the question."""
        return self.rng.choice(long_words(self.sample.question))

    def chance(self, share: float) -> bool:
        """Return true with probability `share`."""
        return self.rng.random() < share


StateT = TypeVar("StateT", bound=WriterState)


class TurnWriter(Generic[ConfigT, StateT]):
    """Writes the turns of one system: a thought, then an action as a tagged block."""

    title: ClassVar[str]
    """The name of the system."""
    tags: ClassVar[Mapping[Move, str]]
    """The tag of each action."""
    thoughts: ClassVar[Mapping[Move, str | tuple[str, ...]]]
    """The thought before each action, or several to choose from, with a placeholder for a word."""

    def __init__(self, config: ConfigT) -> None:
        self.config = config

    def write(self, act: Act, state: StateT) -> str:
        """Return a well-formed turn."""
        return f"<think>{self.thought(act, state)}</think>{self.action(act, state)}"

    def thought(self, act: Act, state: StateT) -> str:
        """Return a thought about a word."""
        thoughts = self.thoughts[act.move]
        thought = thoughts if isinstance(thoughts, str) else state.rng.choice(thoughts)
        return thought.format(state.word())

    def action(self, act: Act, state: StateT) -> str:
        """Return an action as a tagged block; raises `ValueError` if the system lacks the
        action.
        """
        if act.move not in self.tags:
            raise ValueError(f"{self.title} has no {act.move}")
        return f"<{self.tags[act.move]}>{self.argument(act, state)}</{self.tags[act.move]}>"

    def argument(self, act: Act, state: StateT) -> object:
        """Return the content of the block of an action."""
        raise NotImplementedError


@dataclass(slots=True)
class ScriptContext(WriterState, ABC):
    """A script's view of a trajectory, and the arguments that are drawn for its actions.

    The lab, which plays scripts, draws them (`docagent_rl.lab.agents.random_turns`).
    """

    @property
    def shown(self) -> list[int]:
        """Numbers of the pages that the previous turn showed."""
        return [ref.page for ref in self.brought]

    @abstractmethod
    def query(self) -> list[str]:
        """Return the words of a search."""

    @abstractmethod
    def absent_page(self) -> int:
        """Return a page number beyond the last page."""

    @abstractmethod
    def likely_pages(self, count: int) -> list[int]:
        """Return distinct pages, preferring those that often contain evidence."""

    @abstractmethod
    def answer(self) -> str:
        """Return an answer."""

    @abstractmethod
    def corners(self) -> list[int]:
        """Return a box in pixels."""


class Script(TurnWriter[ConfigT, ScriptContext], ABC):
    """Writes the turns of one system at random."""

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 128}
    """Settings of `WarmUp` that differ from its defaults."""

    @classmethod
    def configs(cls, config: ConfigT) -> Sequence[ConfigT]:
        """Return the configurations, `config` first, that a model made for it should handle."""
        return (config,)

    def filling(self) -> Script[ConfigT]:
        """Return a script whose turns show as much as they may, for rehearsals: by default this
        one.
        """
        return self

    @abstractmethod
    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """Return the possible moves and their weights for turns before the last one.

        The last turn answers, if the system has that action.
        """

    def argument(self, act: Act, state: ScriptContext) -> object:
        """See `TurnWriter`."""
        match act.move:
            case Move.SEARCH:
                return " ".join(state.query())
            case Move.CROP:
                return state.corners()
            case Move.ANSWER:
                return state.answer()
        return ""


def long_words(question: str) -> list[str]:
    """Return the question's words of four or more letters, or common words if there are none."""
    words = [word.strip(".,;:!?\"'()[]<>{}") for word in question.split()]
    return [word for word in words if len(word) >= 4 and word.isalpha()] or list(REPORT_WORDS)
