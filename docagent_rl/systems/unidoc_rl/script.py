"""A scripted policy for UniDoc-RL: search, select, magnify, note, answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from docagent_rl.envs.script import Move, Script, ScriptContext
from docagent_rl.systems.unidoc_rl.config import UniDocConfig

THOUGHTS = {
    Move.SEARCH: "I need the {}.",
    Move.SELECT: "It shows the {}.",
    Move.CROP: "I look at the {}.",
    Move.ANSWER: "The {} is enough.",
}


class UniDocScript(Script):
    """Selects after a search, then magnifies, searches again or answers with a note.

    Args:
        config: of the system.
    """

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 128, "short_steps": 220, "full_steps": 24}

    def __init__(self, config: UniDocConfig) -> None:
        self._crop = config.grammar.crop
        self._candidates = config.search.candidates

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`: boxes refer to a selected page."""
        if context.last:
            return {Move.ANSWER: 1.0}
        match context.effect:
            case "candidates":
                return {Move.SELECT: 0.88, Move.ANSWER: 0.12}
            case "selection" | "crop" | "pages":
                return {Move.CROP: 0.4 * self._crop, Move.SEARCH: 0.05, Move.ANSWER: 0.55}
            case "no_new_page":
                return {Move.SEARCH: 0.4, Move.ANSWER: 0.6}
        return {Move.SEARCH: 0.9, Move.ANSWER: 0.1}

    def write(self, move: Move, context: ScriptContext) -> str:
        """See `Script.write`; an answer mostly follows a note."""
        thought = f"<think>{THOUGHTS[move].format(context.word())}</think>"
        match move:
            case Move.SEARCH:
                return f"{thought}<search>{' '.join(context.query())}</search>"
            case Move.SELECT:
                return f"{thought}<select>{self._index(context)}</select>"
            case Move.CROP:
                boxes = [context.corners() for _ in range(1 + context.chance(0.2))]
                return f"{thought}<bbox>{boxes}</bbox>"
            case Move.ANSWER:
                answer = context.answer()
                note = f"<information>{answer}</information>" if context.chance(0.8) else ""
                return f"{thought}{note}<answer>{answer}</answer>"
        raise ValueError(f"UniDoc-RL has no {move}")

    def _index(self, context: ScriptContext) -> int:
        """A gold candidate, any candidate, or now and then an index that no candidate has."""
        right = [index for index, page in enumerate(context.shown) if page in context.gold]
        if right and context.chance(0.5):
            return right[0]
        count = len(context.shown) or self._candidates
        return context.rng.randrange(count + context.chance(0.04))
