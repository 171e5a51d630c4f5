"""Trajectories in the terminal: `docagent-rl view --text`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import CONSOLE_SVG_FORMAT, Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import write_output
from docagent_rl.base.terminal import shown
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn, read_trajectories

# rich's template loads its fonts from the web; a fallback font of the reader does as well
_PICTURE = re.sub(r"@font-face\s*\{\{[^}]*\}\}", "", CONSOLE_SVG_FORMAT)
_COLOURS = {"finished": "green", "unfinished": "yellow", "masked": "red"}


def print_trajectories(
    path: Path,
    *,
    number: int | None = None,
    question: str | None = None,
    status: Status | None = None,
    limit: int = 3,
    table: bool = False,
    svg: Path | None = None,
    force: bool = False,
) -> None:
    """Print trajectories: what the policy wrote, what it was shown, its rewards.

    Args:
        path: a file, or the folder of an evaluation.
        number: only the n-th trajectory, from 1.
        question: only trajectories of this question.
        status: only trajectories that ended so.
        limit: most trajectories.
        table: one line a trajectory instead.
        svg: a picture of what is printed.
        force: replace that file.

    Raises:
        UserError: there are none.
    """
    file = _file_of(path)
    chosen = [
        t
        for position, t in enumerate(read_trajectories(file), 1)
        if number in (None, position)
        and question in (None, t.sample.get("question_id"))
        and (status is None or t.status == status.value)
    ]
    if not chosen:
        raise UserError(f"{file}: no trajectory matches")
    console = Console(record=svg is not None)
    if table:
        console.print(_overview(chosen))
    else:
        for trajectory in chosen[:limit]:
            console.print(_whole(trajectory))
        if len(chosen) > limit:
            console.print(f"{len(chosen) - limit} more; --limit, --number or --table")
    if svg is not None:
        picture = console.export_svg(title="docagent-rl view", code_format=_PICTURE)
        write_output(svg, picture, force=force)


def _file_of(path: Path) -> Path:
    if not path.is_dir():
        return path
    folder = RunFolder(path)
    if folder.trajectories_file.is_file():
        return folder.trajectories_file
    steps = path if path.name == "trajectories" else path / "trajectories"
    some = ", ".join(sorted(file.name for file in steps.glob("*.jsonl"))[:5])
    where = f"; name a file of {steps} ({some})" if some else ""
    raise UserError(f"{path} holds no {folder.trajectories_file.name}{where}")


def _overview(trajectories: Sequence[Trajectory]) -> Table:
    table = Table("#", "question", "trajectory", "status", "turns", "tokens", "images", "reward")
    for number, t in enumerate(trajectories, 1):
        images = sum(_images(turn) for turn in t.turns if not turn.dropped)
        place = (shown(t.sample.get("question_id")), str(t.number), _status(t, t.status))
        table.add_row(
            str(number), *place, str(len(t.turns)), str(t.response_tokens), str(images), f"{t.reward:.3f}"
        )
    return table


def _whole(trajectory: Trajectory) -> RenderableType:
    sample = trajectory.sample
    head = Table.grid(padding=(0, 2))
    head.add_row("question", shown(sample.get("question")))
    head.add_row("reference", shown(_listed(sample.get("answers") or ["(unanswerable)"])))
    head.add_row("evidence", shown(f"{sample.get('doc_id')} pages {sample.get('evidence_pages')}"))
    head.add_row("ended", _status(trajectory, f"{trajectory.status} ({trajectory.end})"))
    if trajectory.error:
        head.add_row("error", shown(trajectory.error, "red"))
    head.add_row("reward", f"{trajectory.reward:.4f}")
    head.add_row("tokens", f"{trajectory.prompt_tokens} prompt + {trajectory.response_tokens} response")
    place = f"trajectory {trajectory.number} · step {trajectory.step}"
    title = f"{trajectory.system} · {sample.get('question_id')} · {place}"
    turns = [part for number, turn in enumerate(trajectory.turns, 1) for part in _turn(number, turn)]
    return Group(Panel(head, title=shown(title), title_align="left"), *turns, Rule(style="dim"))


def _status(trajectory: Trajectory, text: str) -> Text:
    return shown(text, _COLOURS.get(trajectory.status, ""))


def _turn(number: int, turn: TrajectoryTurn) -> list[RenderableType]:
    stop = "" if turn.stop == "end_of_turn" else f" · {turn.stop}"
    title = f"turn {number} · {len(turn.token_ids)} tokens{stop} · reward {turn.reward:.4f}"
    parts: list[RenderableType] = [
        Panel(shown(turn.text), title=shown(title), title_align="left", border_style="blue")
    ]
    facts = [*_facts(turn.info), *(f"{name} {value:.4f}" for name, value in turn.terms.items())]
    if facts:
        parts.append(shown("  " + " · ".join(facts), "dim"))
    for message in turn.observation:
        body = Text("\n").join(_part(part) for part in _parts(message))
        dropped = " (did not fit, dropped)" if turn.dropped else f" · {turn.observation_tokens} tokens"
        style = "red" if turn.dropped else "green"
        title = f"{message.get('role')}{dropped}"
        parts.append(Panel(body, title=shown(title), title_align="left", border_style=style, padding=(0, 3)))
    return parts


def _facts(info: dict[str, Any]) -> list[str]:
    """Return what a turn led to in a few words; what our environments do not write is given as it stands."""
    try:
        return _known_facts(info)
    except (AttributeError, KeyError, TypeError, ValueError):
        return [json.dumps(info)]


def _known_facts(info: dict[str, Any]) -> list[str]:
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


def _part(part: Any) -> Text:
    """Return a text, or one line about an image; anything else as it stands."""
    try:
        return shown(part["text"]) if "text" in part else shown(_image(part["image"]), "cyan")
    except (AttributeError, KeyError, TypeError, ValueError):
        return shown(json.dumps(part), "cyan")


def _image(image: dict[str, Any]) -> str:
    width, height = image["size"]
    if "tiles" in image:
        pages = list(dict.fromkeys(str(tile["image"]["page"]) for tile in image["tiles"]))
        named = ", ".join(pages[:4]) + (f" and {len(pages) - 4} more" if len(pages) > 4 else "")
        return f"[sheet of {len(image['tiles'])} pieces of {named} shown at {width}x{height}]"
    left, top, right, bottom = image["raster"]
    return f"[image {image['page']} ({left}, {top})-({right}, {bottom}) shown at {width}x{height}]"


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _parts(message: dict[str, Any]) -> list[Any]:
    parts = message.get("parts")
    return parts if isinstance(parts, list) else [message]


def _images(turn: TrajectoryTurn) -> int:
    return sum(isinstance(p, dict) and "image" in p for m in turn.observation for p in _parts(m))
