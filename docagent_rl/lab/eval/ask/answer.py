"""The answer of a trajectory with the pages and regions that support it, as text or JSON."""

import json
from dataclasses import dataclass
from enum import StrEnum

from rich.console import Console

from docagent_rl.base.text import shown
from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import Magnified
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.lab.eval.scoring.played import read_trajectory
from docagent_rl.rollout.seen_pages import Fractions
from docagent_rl.rollout.trajectory import Trajectory

_THOUGHT = 200
"""Printed length of a turn's reasoning, in characters."""
RESTS_ON_NOTHING = "no page supports this: none was shown before the answer, the model made it up"


class EvidenceReason(StrEnum):
    """A reason why a page counts as evidence of an answer."""

    CITED = "cited"
    """The agent named it as evidence."""
    MAGNIFIED = "magnified"
    """The agent looked at a part of it more closely."""
    SHOWN = "shown"
    """The agent saw it last, and cited nothing."""


@dataclass(frozen=True, slots=True)
class EvidencePage:
    """A page that supports an answer, and the regions of it that the agent magnified."""

    page: PageRef
    why: EvidenceReason
    regions: tuple[Fractions, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerReport:
    """The answer of a trajectory and its evidence, the strongest first, or the reason why there is
    no answer.
    """

    text: str | None
    evidence: tuple[EvidencePage, ...]
    why_not: str = ""


def answer_report(trajectory: Trajectory) -> AnswerReport:
    """Return the answer of a trajectory and its evidence.

    The evidence is the pages that the agent cited, otherwise those it magnified, otherwise those it
    was shown last.
    """
    played = read_trajectory(trajectory)
    if not played.answer:
        reason = f"the trajectory ended without an answer ({trajectory.end})"
        return AnswerReport(
            None, (), trajectory.error or trajectory.end if trajectory.masked else reason
        )
    regions = _magnified(trajectory)
    if played.cited:
        chosen = [PageRef(*page) for page in played.cited]
        why = EvidenceReason.CITED
    elif regions:
        chosen = list(reversed(regions))
        why = EvidenceReason.MAGNIFIED
    else:
        last = (turn_pages(turn.record) for turn in reversed(trajectory.turns) if not turn.dropped)
        collected = [PageRef(*page) for page in played.collected[-1:]]
        chosen = next((pages for pages in last if pages), collected)
        why = EvidenceReason.SHOWN
    return AnswerReport(
        played.extracted or played.answer,
        tuple(
            EvidencePage(page, why, tuple(regions.get(page, ()))) for page in dict.fromkeys(chosen)
        ),
    )


def turn_pages(record: TurnRecord) -> list[PageRef]:
    """Return the pages that a turn brought up, without duplicates."""
    views = [view.page for view in record.effect.views]
    return list(dict.fromkeys([*record.effect.read, *views]))


def _magnified(trajectory: Trajectory) -> dict[PageRef, list[Fractions]]:
    found: dict[PageRef, list[Fractions]] = {}
    for turn in trajectory.turns:
        effect = turn.record.effect
        if isinstance(effect, Magnified) and effect.view.regions and not turn.dropped:
            found.setdefault(effect.view.page, []).extend(effect.view.regions)
    return found


def print_turn(trajectory: Trajectory, console: Console) -> None:
    """Print the last turn: its reasoning (shortened), its action, and the pages that it brought
    up.
    """
    turn = trajectory.turns[-1]
    record = turn.record
    thought = " ".join(turn.text[start:end] for start, end in record.thoughts)
    if thought := " ".join(thought.split()):
        short = thought if len(thought) <= _THOUGHT else f"{thought[:_THOUGHT]} …"
        console.print(shown(short, "dim"), soft_wrap=True)
    pages = ", ".join(f"p. {page.page}" for page in turn_pages(record))
    line = f"{len(trajectory.turns)}. {action_of(record)}"
    console.print(shown(f"{line}  →  {pages}" if pages else line), soft_wrap=True)


def action_of(record: TurnRecord) -> str:
    """Describe the action of a turn in a few words."""
    if not record.action.kind:
        return "no action"
    if not record.valid:
        return f"invalid action ({record.detail or record.reason})"
    words = [record.action.kind]
    for value in record.action.arguments.values():
        if value not in (None, [], ""):
            words.append(", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return " ".join(words)


def print_answer(found: AnswerReport, console: Console) -> None:
    """Print the answer and its evidence."""
    if found.text is None:
        console.print(shown(f"No answer: {found.why_not}", "red"), soft_wrap=True)
        return
    console.print(shown(found.text, "bold"), soft_wrap=True)
    for item in found.evidence:
        line = f"  {item.page.doc_id}, page {item.page.page} ({item.why.value})"
        console.print(shown(line, "dim"), soft_wrap=True)
    if not found.evidence:
        console.print(shown(f"  {RESTS_ON_NOTHING}", "yellow"), soft_wrap=True)


def answer_json(trajectory: Trajectory, found: AnswerReport) -> str:
    """Return question, answer, evidence and turns as one JSON object."""
    turns = [
        {
            "action": action_of(turn.record),
            "pages": list(map(str, turn_pages(turn.record))),
            "text": turn.text,
        }
        for turn in trajectory.turns
    ]
    data = {
        "question": trajectory.sample.get("question"),
        "answer": found.text,
        "why_not": found.why_not or None,
        "evidence": [
            {
                "document": item.page.doc_id,
                "page": item.page.page,
                "why": item.why,
                "regions": item.regions,
            }
            for item in found.evidence
        ],
        "status": trajectory.status,
        "end": trajectory.end,
        "turns": turns,
    }
    return json.dumps(data, ensure_ascii=False, indent=2)
