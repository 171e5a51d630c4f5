"""Lines about what an agent does while it does it, and its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from docagent_rl.base.terminal import shown
from docagent_rl.envs.base import AssistantTurn, DocEnv, StepResult
from docagent_rl.lab.eval.ask.answer import RESTS_ON_NOTHING, Answered, Evidence, turn_pages
from docagent_rl.rollout.trajectory import Trajectory


def tell_turns(env: DocEnv, console: Console) -> DocEnv:
    """Have an environment print one line for every turn that was carried out."""
    step, number = env.step, 0

    async def step_and_tell(turn: AssistantTurn) -> StepResult:
        nonlocal number
        result = await step(turn)
        number += 1
        pages = ", ".join(f"p. {page.page}" for page in turn_pages(result.info))
        line = f"{number}. {action_of(result.info)}"
        console.print(shown(f"{line}  →  {pages}" if pages else line), soft_wrap=True)
        return result

    vars(env)["step"] = step_and_tell
    return env


def action_of(info: Mapping[str, Any]) -> str:
    """Return what a turn did, in a few words."""
    action = info.get("action")
    if not isinstance(action, Mapping):
        return "a turn"
    if info.get("valid") is False:
        return f"nothing that can be done ({info.get('detail') or info.get('reason')})"
    words = [str(action.get("kind", "a turn"))]
    for name, value in action.items():
        if name not in ("kind", "block", "argument") and value not in (None, [], ""):
            words.append(", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return " ".join(words)


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
    """Return question, answer, evidence and turns as one JSON object."""
    turns = [
        {"action": action_of(turn.info), "pages": list(map(str, turn_pages(turn.info))), "text": turn.text}
        for turn in trajectory.turns
    ]
    data = {
        "question": trajectory.sample.get("question"),
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
        f"{100 * left:.0f}-{100 * right:.0f}% across, {100 * top:.0f}-{100 * bottom:.0f}% down"
        for left, top, right, bottom in item.regions
    )
    return f"{item.page.doc_id}, page {item.page.page} ({item.why.value}{': ' + regions if regions else ''})"
