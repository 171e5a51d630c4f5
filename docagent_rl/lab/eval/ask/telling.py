"""Telling what an agent does while it does it, and what came of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from docagent_rl.base.terminal import shown
from docagent_rl.envs.base import AssistantTurn, StepResult
from docagent_rl.lab.eval.ask.answer import RESTS_ON_NOTHING, Answered, Evidence, turn_pages
from docagent_rl.lab.eval.ask.page import action_of
from docagent_rl.rollout.trajectory import Trajectory

_PERCENT = 100


@dataclass(slots=True)
class Teller:
    """Prints one line a turn.

    Args:
        console: where to.
    """

    console: Console
    turn: int = field(default=0, init=False)

    def __call__(self, turn: AssistantTurn, result: StepResult) -> None:
        """Tell of a turn that was carried out."""
        self.turn += 1
        pages = ", ".join(f"p. {page.page}" for page in turn_pages(result.info))
        line = f"{self.turn}. {action_of(result.info)}"
        self.console.print(shown(f"{line}  →  {pages}" if pages else line), soft_wrap=True)


def tell_answer(found: Answered, console: Console) -> None:
    """Print the answer and what it rests on."""
    if found.text is None:
        console.print(shown(f"No answer: {found.why_not}", "red"), soft_wrap=True)
        return
    console.print(shown(found.text, "bold"), soft_wrap=True)
    for item in found.evidence:
        console.print(shown(f"  {_place(item)}", "dim"), soft_wrap=True)
    if not found.evidence:
        console.print(shown(f"  {RESTS_ON_NOTHING}", "yellow"), soft_wrap=True)


def answer_json(trajectory: Trajectory, found: Answered) -> str:
    """Question, answer, evidence and turns as one JSON object."""
    turns: list[dict[str, Any]] = [
        {
            "action": action_of(turn.info),
            "pages": [str(page) for page in turn_pages(turn.info)],
            "text": turn.text,
        }
        for turn in trajectory.turns
    ]
    data = {
        "question": trajectory.record.get("question"),
        "answer": found.text,
        "why_not": found.why_not or None,
        "evidence": [item.to_dict() for item in found.evidence],
        "status": trajectory.status,
        "end": trajectory.end,
        "turns": turns,
    }
    return json.dumps(data, ensure_ascii=False, indent=2)


def _place(item: Evidence) -> str:
    regions = "; ".join(
        "{:.0f}-{:.0f}% across, {:.0f}-{:.0f}% down".format(
            *(_PERCENT * side for side in (region[0], region[2], region[1], region[3]))
        )
        for region in item.regions
    )
    return f"{item.page.doc_id}, page {item.page.page} ({item.why.value}{': ' + regions if regions else ''})"
