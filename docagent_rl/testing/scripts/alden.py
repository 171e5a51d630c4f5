"""A scripted policy for ALDEN: search, fetch pages by number, answer in a box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from docagent_rl.actions.alden import FetchSyntax, PageForm
from docagent_rl.envs.alden_config import AldenConfig
from docagent_rl.testing.scripts.base import Move, Scene, Script

THOUGHTS = {
    Move.SEARCH: "I need the {}.",
    Move.FETCH: "I open the {}.",
    Move.ANSWER: "The {} is enough.",
}


class AldenScript(Script):
    """Calls tools at first and answers more and more.

    Args:
        config: of the system.
    """

    warm_up: ClassVar[Mapping[str, Any]] = {"pool": 128, "short_steps": 160, "full_steps": 30}

    def __init__(self, config: AldenConfig) -> None:
        self._fetch = config.fetch
        self._hybrid = config.hybrid
        self._ordinal = config.fetch_syntax is FetchSyntax.ORDINAL

    def moves(self, scene: Scene) -> Mapping[Move, float]:
        """See `Script.moves`."""
        if scene.last:
            return {Move.ANSWER: 1.0}
        if scene.turn == 1:
            return {Move.SEARCH: 0.6, Move.FETCH: 0.35 * self._fetch, Move.ANSWER: 0.05}
        return {Move.SEARCH: 0.25, Move.FETCH: 0.3 * self._fetch, Move.ANSWER: 0.45}

    def write(self, move: Move, scene: Scene) -> str:
        """See `Script.write`."""
        thought = f"<think>{THOUGHTS[move].format(scene.word())}</think>"
        match move:
            case Move.SEARCH:
                return f"{thought}<search>{' '.join(scene.query())}</search>"
            case Move.FETCH:
                form = f"{scene.rng.choice(list(PageForm))}, " if self._hybrid else ""
                return f"{thought}<fetch>{form}{scene.page()}{'-th' if self._ordinal else ''}</fetch>"
            case Move.ANSWER:
                return f"{thought}<answer>\\boxed{{{scene.answer()}}}</answer>"
        raise ValueError(f"ALDEN has no {move}")
