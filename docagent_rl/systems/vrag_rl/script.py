"""A scripted policy for VRAG-RL: search, zoom, answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from docagent_rl.envs.script import Move, Script, ScriptContext
from docagent_rl.systems.vrag_rl.config import VragConfig

THOUGHTS = {
    Move.SEARCH: ("I need the {}.", "I will search for the {}."),
    Move.CROP: ("I look closer at the {}.", "I zoom into the {}."),
    Move.ANSWER: ("The {} shows the answer.", "I have enough evidence."),
}


class VragScript(Script):
    """Searches first, then zooms or searches again, then answers.

    Args:
        config: of the system.
    """

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 128, "short_steps": 220, "full_steps": 36}

    def __init__(self, config: VragConfig) -> None:
        self._crop = config.grammar.crop

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`: nothing can be cropped before the first image."""
        if context.last:
            return {Move.ANSWER: 1.0}
        if context.effect not in ("pages", "crop", "no_new_page"):
            return {Move.SEARCH: 0.88, Move.ANSWER: 0.12}
        return {Move.SEARCH: 0.26, Move.CROP: 0.36 * self._crop, Move.ANSWER: 0.38}

    def write(self, move: Move, context: ScriptContext) -> str:
        """See `Script.write`."""
        thought = f"<think>{context.rng.choice(THOUGHTS[move]).format(context.word())}</think>"
        match move:
            case Move.SEARCH:
                return f"{thought}<search>{' '.join(context.query())}</search>"
            case Move.CROP:
                return f"{thought}<bbox>{context.corners()}</bbox>"
            case Move.ANSWER:
                return f"{thought}<answer>{context.answer()}</answer>"
        raise ValueError(f"VRAG-RL has no {move}")
