"""Scripted, noisy policies, one a system: what a tiny model is warmed up on.

They play in the system's real environment, so that a model which imitates them meets in training what it met
in its warm-up. They teach the form of a turn and its usual order, and next to nothing about the questions.
"""

from __future__ import annotations

from collections.abc import Mapping

from docagent_rl.errors import UserError
from docagent_rl.testing.scripts.alden import AldenScript
from docagent_rl.testing.scripts.base import Line, Move, Scene, Script
from docagent_rl.testing.scripts.doc_v_star import DocVStarScript
from docagent_rl.testing.scripts.mm_doc_r1 import MMDocScript
from docagent_rl.testing.scripts.play import Played, Player, Stage, play, scripted_conversations
from docagent_rl.testing.scripts.unidoc_rl import UniDocScript
from docagent_rl.testing.scripts.vrag_rl import VragScript

__all__ = [
    "SCRIPTS",
    "Line",
    "Move",
    "Played",
    "Player",
    "Scene",
    "Script",
    "Stage",
    "make_script",
    "play",
    "scripted_conversations",
]

SCRIPTS: Mapping[str, type[Script]] = {
    "alden": AldenScript,
    "doc_v_star": DocVStarScript,
    "mm_doc_r1": MMDocScript,
    "unidoc_rl": UniDocScript,
    "vrag_rl": VragScript,
}
"""By the name of the system; each is made from the system's configuration."""


def make_script(system: str, config: object) -> Script:
    """The scripted policy of a system.

    Args:
        system: its name.
        config: its configuration, parsed.

    Raises:
        UserError: there is no script for this system.
    """
    if system not in SCRIPTS:
        raise UserError(f"there is no scripted policy for system {system!r}; known: {', '.join(SCRIPTS)}")
    return SCRIPTS[system](config)
