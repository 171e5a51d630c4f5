"""A scripted seeker for MM-Doc-R1: search by keywords, have pages read, finish."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from docagent_rl.envs.script import Move, Script, ScriptContext
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig

THOUGHTS = {
    Move.SEARCH: "I need the {}.",
    Move.READ: "I read the {}.",
    Move.FINISH: "The {} is enough.",
}


class MMDocScript(Script):
    """Searches, has pages read that were found or guessed, and finishes.

    Args:
        config: of the system.
    """

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 160, "short_steps": 280, "full_steps": 40}

    def __init__(self, config: MMDocConfig) -> None:
        self._most = config.read.max_pages

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`."""
        if context.turn == 1:
            return {Move.SEARCH: 0.35, Move.READ: 0.6, Move.FINISH: 0.05}
        return {Move.SEARCH: 0.15, Move.READ: 0.6, Move.FINISH: 0.25}

    def write(self, move: Move, context: ScriptContext) -> str:
        """See `Script.write`."""
        return f"{THOUGHTS[move].format(context.word())} {self._action(move, context)}"

    def _action(self, move: Move, context: ScriptContext) -> str:
        match move:
            case Move.SEARCH:
                return f"<search>{json.dumps(context.query())}</search>"
            case Move.READ:
                entry = {"page_ids": self._pages(context), "query": context.word()}
                return f"<read>{json.dumps([entry])}</read>"
            case Move.FINISH:
                return "<FINISH>"
        raise ValueError(f"MM-Doc-R1 has no {move}")

    def _pages(self, context: ScriptContext) -> list[int]:
        """Pages that the last search found, or those that often hold evidence."""
        if context.shown and context.chance(0.4):
            return context.shown[: self._most]
        return context.likely_pages(context.rng.randint(min(2, self._most), self._most))
