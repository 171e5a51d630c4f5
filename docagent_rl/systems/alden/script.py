"""A scripted policy for ALDEN: search, fetch pages by number, answer in a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from docagent_rl.envs.script import Move, Script, ScriptContext
from docagent_rl.systems.alden.actions import FetchSyntax, Modality, PageForm
from docagent_rl.systems.alden.config import AldenConfig, TextRanking

THOUGHTS = {
    Move.SEARCH: "I need the {}.",
    Move.FETCH: "I open the {}.",
    Move.ANSWER: "The {} is enough.",
}


AGAIN = 0.65
"""Share of fetches of a page that was just shown."""

ABSENT = 0.3
"""Share of the others that name a page that does not exist."""


class AldenScript(Script):
    """Calls tools at first, often the same again, and answers more and more.

    Args:
        config: of the system.
    """

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 160, "short_steps": 260, "full_steps": 36}

    def __init__(self, config: AldenConfig) -> None:
        self._fetch = config.fetch
        self._hybrid = config.hybrid
        self._ordinal = config.fetch_syntax is FetchSyntax.ORDINAL

    @classmethod
    def configs(cls, config: AldenConfig) -> Sequence[AldenConfig]:
        """See `Script.configs`: both modalities, since they differ in little but the form of a fetch.

        Turns are written alike whichever ranking finds the texts, so one will do.
        """
        shared = config.search.model_copy(update={"text_ranking": TextRanking.SHARED})
        config = config.model_copy(update={"search": shared})
        other = Modality.VISUAL if config.hybrid else Modality.HYBRID
        return config, config.model_copy(update={"modality": other})

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`."""
        if context.last:
            return {Move.ANSWER: 1.0}
        if context.turn == 1:
            return {Move.SEARCH: 0.5, Move.FETCH: 0.47 * self._fetch, Move.ANSWER: 0.03}
        return {Move.SEARCH: 0.3, Move.FETCH: 0.5 * self._fetch, Move.ANSWER: 0.2}

    def write(self, move: Move, context: ScriptContext) -> str:
        """See `Script.write`."""
        thought = f"<think>{THOUGHTS[move].format(context.word())}</think>"
        match move:
            case Move.SEARCH:
                return f"{thought}<search>{' '.join(context.query())}</search>"
            case Move.FETCH:
                form = f"{context.rng.choice(list(PageForm))}, " if self._hybrid else ""
                page = self._page(context)
                return f"{thought}<fetch>{form}{page}{'-th' if self._ordinal else ''}</fetch>"
            case Move.ANSWER:
                return f"{thought}<answer>\\boxed{{{context.answer()}}}</answer>"
        raise ValueError(f"ALDEN has no {move}")

    def _page(self, context: ScriptContext) -> int:
        """The page that was just shown, a likely one, or none of the document."""
        if context.shown and context.chance(AGAIN):
            return context.rng.choice(context.shown)
        return context.absent_page() if context.chance(ABSENT) else context.likely_pages(1)[0]
