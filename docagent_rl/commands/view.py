"""`docagent-rl view`: trajectories in the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from docagent_rl.errors import UserError
from docagent_rl.io import atomic_write
from docagent_rl.rollout.trajectory import Status, Trajectory, TurnRecord, read_trajectories

_COLOURS = {"finished": "green", "unfinished": "yellow", "masked": "red"}


def view_command(
    file: Annotated[Path, typer.Argument(help="A trajectory file, <run>/trajectories/<step>.jsonl.")],
    number: Annotated[
        int | None, typer.Option("--number", "-n", help="Only the n-th trajectory, from 1.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="Only sessions of this question id.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only sessions that ended so.")] = None,
    limit: Annotated[int, typer.Option(help="Most trajectories to print.")] = 3,
    table: Annotated[bool, typer.Option("--table", help="One line a trajectory instead.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write a picture of what is printed as well.")] = None,
) -> None:
    """Print trajectories: what the policy wrote, what it was shown, what it was paid.

    Example: docagent-rl view workspace/runs/vrag_rl_qwen2_5_vl_7b/trajectories/1.jsonl --table
    """
    chosen = select(read_trajectories(file), number=number, question=question, status=status)
    if not chosen:
        raise UserError(f"{file}: no trajectory matches")
    console = Console(record=svg is not None)
    if table:
        console.print(overview(chosen))
    else:
        for trajectory in islice(chosen, limit):
            console.print(render(trajectory))
        if len(chosen) > limit:
            console.print(f"{len(chosen) - limit} more; --limit, --number or --table")
    if svg is not None:
        # rich's template loads its fonts from the web; a fallback font of the reader does as well
        picture = re.sub(r"@font-face\s*\{[^}]*\}", "", console.export_svg(title="docagent-rl view"))
        atomic_write(svg, picture)


def select(
    trajectories: Iterable[Trajectory],
    *,
    number: int | None = None,
    question: str | None = None,
    status: Status | None = None,
) -> list[Trajectory]:
    """The trajectories that match every given criterion; `number` counts from 1 in the file."""
    return [
        t
        for position, t in enumerate(trajectories, 1)
        if (number is None or position == number)
        and (question is None or t.record.get("question_id") == question)
        and (status is None or t.status == status.value)
    ]


def overview(trajectories: Sequence[Trajectory]) -> Table:
    """One row a trajectory."""
    table = Table("#", "question", "session", "status", "turns", "tokens", "images", "reward")
    for number, t in enumerate(trajectories, 1):
        images = sum(len(_images(turn)) for turn in t.turns if not turn.dropped)
        status = Text(t.status, style=_COLOURS.get(t.status, ""))
        cells = (str(len(t.turns)), str(t.response_tokens), str(images), f"{t.reward:.3f}")
        table.add_row(str(number), str(t.record.get("question_id")), str(t.session), status, *cells)
    return table


def render(trajectory: Trajectory) -> RenderableType:
    """The whole session."""
    record = trajectory.record
    head = Table.grid(padding=(0, 2))
    head.add_row("question", Text(str(record.get("question"))))
    head.add_row("reference", Text(", ".join(map(str, record.get("answers") or ["(unanswerable)"]))))
    head.add_row("evidence", Text(f"{record.get('doc_id')} pages {record.get('evidence_pages')}"))
    ending = Text(f"{trajectory.status} ({trajectory.end})", style=_COLOURS.get(trajectory.status, ""))
    head.add_row("ended", ending)
    if trajectory.error:
        head.add_row("error", Text(trajectory.error, style="red"))
    head.add_row("reward", f"{trajectory.reward:.4f}")
    head.add_row("tokens", f"{trajectory.prompt_tokens} prompt + {trajectory.response_tokens} response")
    place = f"session {trajectory.session} · step {trajectory.step}"
    title = f"{trajectory.system} · {record.get('question_id')} · {place}"
    turns = [part for number, turn in enumerate(trajectory.turns, 1) for part in _turn(number, turn)]
    return Group(Panel(head, title=Text(title), title_align="left"), *turns, Rule(style="dim"))


def _turn(number: int, turn: TurnRecord) -> list[RenderableType]:
    stop = "" if turn.stop == "end_of_turn" else f" · {turn.stop}"
    title = f"turn {number} · {len(turn.token_ids)} tokens{stop} · reward {turn.reward:.4f}"
    parts: list[RenderableType] = [
        Panel(Text(turn.text), title=Text(title), title_align="left", border_style="blue")
    ]
    facts = [*_facts(turn.info), *(f"{name} {value:.4f}" for name, value in turn.terms.items())]
    if facts:
        parts.append(Text("  " + " · ".join(facts), style="dim"))
    for message in turn.observation:
        body = Text("\n").join(_part(part) for part in message["parts"])
        dropped = " (did not fit, dropped)" if turn.dropped else f" · {turn.observation_tokens} tokens"
        style = "red" if turn.dropped else "green"
        parts.append(
            Panel(
                body,
                title=Text(message["role"] + dropped),
                title_align="left",
                border_style=style,
                padding=(0, 3),
            )
        )
    return parts


def _facts(info: dict[str, Any]) -> list[str]:
    """What the environment made of a turn, in a few words; the file holds all of it."""
    action, effect = info.get("action") or {}, info.get("effect") or {}
    facts = [str(action["kind"])] if "kind" in action else []
    if info.get("valid") is False:
        facts.append(f"invalid: {info.get('detail') or info.get('reason')}")
    if effect.get("kind") not in (None, action.get("kind")):
        facts.append(str(effect["kind"]).replace("_", " "))
    for page in effect.get("pages", ()):
        gold = ", gold" if page.get("gold") else ""
        facts.append(f"{page['page']} (rank {page.get('rank')}, score {page.get('score', 0.0):.2f}{gold})")
    return facts


def _part(part: dict[str, Any]) -> Text:
    if "text" in part:
        return Text(part["text"])
    image = part["image"]
    width, height = image["size"]
    if "tiles" in image:
        pages = list(dict.fromkeys(tile["image"]["page"] for tile in image["tiles"]))
        named = ", ".join(pages[:4]) + (f" and {len(pages) - 4} more" if len(pages) > 4 else "")
        return Text(f"[sheet of {len(image['tiles'])} pieces of {named} shown at {width}x{height}]", "cyan")
    left, top, right, bottom = image["raster"]
    place = f"({left}, {top})-({right}, {bottom})"
    return Text(f"[image {image['page']} {place} shown at {width}x{height}]", "cyan")


def _images(turn: TurnRecord) -> list[dict[str, Any]]:
    return [p["image"] for m in turn.observation for p in m["parts"] if "image" in p]
