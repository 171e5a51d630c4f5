"""Who writes the turns of which system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docagent_rl.errors import UserError
from docagent_rl.play.scripts.alden import AldenPen
from docagent_rl.play.scripts.doc_v_star import DocVStarPen
from docagent_rl.play.scripts.mm_doc_r1 import MMDocPen
from docagent_rl.play.scripts.pen import Pen
from docagent_rl.play.scripts.unidoc_rl import UniDocPen
from docagent_rl.play.scripts.vrag_rl import VragPen

PENS: Mapping[str, type[Pen]] = {
    "alden": AldenPen,
    "doc_v_star": DocVStarPen,
    "mm_doc_r1": MMDocPen,
    "unidoc_rl": UniDocPen,
    "vrag_rl": VragPen,
}


def pen_of(system: str, config: Any) -> Pen:
    """The pen of a system.

    Raises:
        UserError: nobody taught scripts to play it.
    """
    if system not in PENS:
        raise UserError(f"no script plays {system!r}; they play {', '.join(sorted(PENS))}")
    return PENS[system](config)
