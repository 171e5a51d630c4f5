"""Navigation and use of a session as numbers, and the measures over them."""

from __future__ import annotations

from docagent_rl.endpoints.endpoint import Price
from docagent_rl.lab.eval.metrics.doc_v_star import Tool
from docagent_rl.lab.eval.metrics.pages import page_numbers
from docagent_rl.lab.eval.metrics.sessions import SessionUse
from docagent_rl.lab.eval.scoring.measures import Form, Measure, Unit, mean
from docagent_rl.lab.eval.scoring.played import Played
from docagent_rl.records.record import Record
from docagent_rl.rollout.trajectory import Trajectory

_TOOL_NAMES = {Tool.RETRIEVAL: "retrieval", Tool.FETCH: "fetch"}

NAVIGATION = (
    mean("page_recall", "page recall"),
    mean("page_precision", "page precision"),
    mean("page_f1", "page F1"),
    mean("unique_pages", "unique pages", unit=Unit.NUMBER),
)
"""ALDEN, appendix E: of all pages that a session collected."""

TOOLS = tuple(
    Measure(f"{name}_{part}", f"{name} {title}", f"{name}_{part}", unit=unit)
    for name in _TOOL_NAMES.values()
    for part, title, unit in (
        ("called", "called", Unit.PERCENT),
        ("recall", "recall", Unit.PERCENT),
        ("precision", "precision", Unit.PERCENT),
        ("f1", "F1", Unit.PERCENT),
        ("pages", "pages", Unit.NUMBER),
    )
)
"""Doc-V*, table 5: each tool over the sessions that call it."""

USE = (
    mean("finished", "finished"),
    mean("invalid_rate", "invalid turns a session"),
    Measure("invalid_turns", "invalid turns of all", "invalid", Form.RATIO, "turns"),
    mean("turns", "turns", unit=Unit.NUMBER),
    mean("sent_tokens", "tokens sent", unit=Unit.NUMBER),
    mean("output_tokens", "tokens sampled", unit=Unit.NUMBER),
    mean("image_tokens", "image tokens", unit=Unit.NUMBER),
    mean("images", "images", unit=Unit.NUMBER),
    mean("seconds", "seconds", unit=Unit.SECONDS),
    mean("cost", "cost of a session", unit=Unit.MONEY),
)
"""VRAG-RL, table 3, and what a session takes. One that was not played is unfinished, and in no other."""


def navigation_values(record: Record, played: Played) -> dict[str, float | None]:
    """Values of `NAVIGATION` and `TOOLS` of a session that was played."""
    gold = record.gold_pages
    numbers = page_numbers(gold, played.collected)
    found: dict[str, float | None] = {f"page_{name}": value for name, value in numbers.items()}
    found["unique_pages"] = float(len(set(played.collected)))
    for tool, name in _TOOL_NAMES.items():
        brought = played.by_tool.get(tool)
        found[f"{name}_called"] = float(brought is not None)
        if brought is not None:
            found |= {f"{name}_{part}": value for part, value in page_numbers(gold, brought).items()}
            found[f"{name}_pages"] = float(len(set(brought)))
    return found


def use_values(trajectory: Trajectory, price: Price | None) -> dict[str, float | None]:
    """Values of `USE`; one that was not played is unfinished and has no other."""
    use = SessionUse.of(trajectory)
    if not use.played:
        return {"finished": 0.0}
    return {
        "finished": float(use.finished),
        "turns": float(use.turns),
        "invalid": float(use.invalid),
        "invalid_rate": use.invalid / use.turns if use.turns else None,
        "sent_tokens": float(use.sent_tokens),
        "output_tokens": float(use.output_tokens),
        "image_tokens": float(use.image_tokens),
        "images": float(use.images),
        "seconds": use.seconds,
        "cost": None if price is None else price.cost(use.sent_tokens, use.output_tokens, use.fresh_tokens),
    }
