"""A scripted policy for UniDoc-RL: search, select, magnify, note, answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from docagent_rl.envs.unidoc_rl_config import UniDocConfig
from docagent_rl.testing.scripts.base import Move, Scene, Script

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
        self._select = config.grammar.select
        self._crop = config.grammar.crop
        self._candidates = config.search.candidates

    def moves(self, scene: Scene) -> Mapping[Move, float]:
        """See `Script.moves`: boxes refer to a selected page."""
        if scene.last:
            return {Move.ANSWER: 1.0}
        match scene.effect:
            case "candidates" if self._select:
                return {Move.SELECT: 0.88, Move.ANSWER: 0.12}
            case "selection" | "crop" | "candidates":
                return {Move.CROP: 0.4 * self._crop, Move.SEARCH: 0.05, Move.ANSWER: 0.55}
            case "no_new_page":
                return {Move.SEARCH: 0.4, Move.ANSWER: 0.6}
        return {Move.SEARCH: 0.9, Move.ANSWER: 0.1}

    def write(self, move: Move, scene: Scene) -> str:
        """See `Script.write`; an answer mostly follows a note."""
        thought = f"<think>{THOUGHTS[move].format(scene.word())}</think>"
        match move:
            case Move.SEARCH:
                return f"{thought}<search>{' '.join(scene.query())}</search>"
            case Move.SELECT:
                return f"{thought}<select>{self._index(scene)}</select>"
            case Move.CROP:
                boxes = [scene.corners() for _ in range(1 + scene.chance(0.2))]
                return f"{thought}<bbox>{boxes}</bbox>"
            case Move.ANSWER:
                answer = scene.guess()
                note = f"<information>{answer}</information>" if scene.chance(0.8) else ""
                return f"{thought}{note}<answer>{answer}</answer>"
        raise ValueError(f"UniDoc-RL has no {move}")

    def _index(self, scene: Scene) -> int:
        """A gold candidate, any candidate, or now and then an index that no candidate has."""
        right = [index for index, page in enumerate(scene.shown) if page in scene.gold]
        if right and scene.chance(0.5):
            return right[0]
        count = len(scene.shown) or self._candidates
        return scene.rng.randrange(count + scene.chance(0.04))
