"""A scripted seeker for MM-Doc-R1: search by keywords, have pages read, finish."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from docagent_rl.envs.mm_doc_r1_config import MMDocConfig
from docagent_rl.testing.scripts.base import Move, Scene, Script

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

    def moves(self, scene: Scene) -> Mapping[Move, float]:
        """See `Script.moves`."""
        if scene.turn == 1:
            return {Move.SEARCH: 0.35, Move.READ: 0.6, Move.FINISH: 0.05}
        return {Move.SEARCH: 0.15, Move.READ: 0.6, Move.FINISH: 0.25}

    def write(self, move: Move, scene: Scene) -> str:
        """See `Script.write`."""
        return f"{THOUGHTS[move].format(scene.word())} {self._action(move, scene)}"

    def _action(self, move: Move, scene: Scene) -> str:
        match move:
            case Move.SEARCH:
                return f"<search>{json.dumps(scene.query())}</search>"
            case Move.READ:
                entry = {"page_ids": self._pages(scene), "query": scene.word()}
                return f"<read>{json.dumps([entry])}</read>"
            case Move.FINISH:
                return "<FINISH>"
        raise ValueError(f"MM-Doc-R1 has no {move}")

    def _pages(self, scene: Scene) -> list[int]:
        """Pages that the last search found, or those that often hold evidence."""
        if scene.shown and scene.chance(0.4):
            return scene.shown[: self._most]
        return scene.likely_pages(scene.rng.randint(min(2, self._most), self._most))
