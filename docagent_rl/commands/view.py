"""`docagent-rl view`: trajectories with the pages they saw, in the browser, in a file or in the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import CONSOLE_SVG_FORMAT, Console, Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from docagent_rl import __version__
from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output
from docagent_rl.base.terminal import shown
from docagent_rl.commands.options import argument, option
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn, read_trajectories

# rich's template loads its fonts from the web; a fallback font of the reader does as well
_PICTURE = re.sub(r"@font-face\s*\{\{[^}]*\}\}", "", CONSOLE_SVG_FORMAT)
_COLOURS = {"finished": "green", "unfinished": "yellow", "masked": "red"}


def view_command(
    runs: list[Path] = argument(
        ...,
        "Folders of runs, <workspace>/runs/<experiment>, or of evaluations; or a trajectory file.",
        metavar="RUN...",
    ),
    store: Path | None = option(None, "The documents, where the run names another place."),
    tokenizer: Path | None = option(None, "A folder with a tokenizer.json, for the texts of tokens."),
    index: Path | None = option(
        None, "An index of BM25 that the questions themselves are asked of, for the funnel."
    ),
    port: int = option(0, "0: one that is free.", min=0, max=65535),
    host: str = option("127.0.0.1", "Address to listen at; 0.0.0.0 for other machines."),
    no_open: bool = option(False, "Do not open a browser.", "--no-open"),
    export: Path | None = option(None, "Write one HTML file that opens anywhere, instead of serving."),
    trajectory: list[int] | None = option(None, "For --export: a trajectory, by its id."),
    group: str | None = option(None, "For --export: the trajectories of a group (uid)."),
    query: str | None = option(
        None, "For --export and --funnel: the trajectories of a link, such as 'step=3&reward=0:0.2'."
    ),
    funnel: Path | None = option(None, "Write where evidence is lost as an SVG picture, instead of serving."),
    by: str = option("split", "For --funnel: none, step, system, kind, dataset or split."),
    text: bool = option(False, "Print trajectories in the terminal instead.", "--text"),
    number: int | None = option(None, "--text: the n-th, from 1.", "--number", "-n"),
    question: str | None = option(None, "--text: only trajectories of this question id."),
    status: Status | None = option(None, "--text: only trajectories that ended so."),
    limit: int | None = option(None, "--text: most trajectories to print, 3 by default."),
    table: bool = option(False, "--text: one line a trajectory instead.", "--table"),
    svg: Path | None = option(None, "--text: write a picture of it as well."),
    force: Force = False,
) -> None:
    """Open runs in the browser: trajectories with their pages, curves, warnings, where evidence is lost.

    Serves those who open the printed address, which holds a token, until interrupted; nothing is fetched from
    elsewhere. An index is kept in the folder of each run (view.sqlite, may be deleted).

    Example: docagent-rl view workspace/runs/vrag_rl_qwen2_5_vl_7b
    """
    if text or table or svg or any(each is not None for each in (number, question, status, limit)):
        if len(runs) != 1:
            raise UserError("--text prints the trajectories of one run or file")
        file = _file_of(runs[0])
        chosen = [
            t
            for position, t in enumerate(read_trajectories(file), 1)
            if number in (None, position)
            and question in (None, t.sample.get("question_id"))
            and (status is None or t.status == status.value)
        ]
        if not chosen:
            raise UserError(f"{file}: no trajectory matches")
        return _print(chosen, 3 if limit is None else limit, table=table, svg=svg, force=force)
    from docagent_rl.lab.viewer.api import Api
    from docagent_rl.lab.viewer.app import serve
    from docagent_rl.lab.viewer.export import Build, Chosen, answers, page
    from docagent_rl.lab.viewer.funnel import funnel as evidence_funnel
    from docagent_rl.lab.viewer.funnel import funnel_figure
    from docagent_rl.lab.viewer.queries import read_pairs
    from docagent_rl.lab.viewer.runs import Places, open_runs

    if store is not None and not store.is_dir():
        raise UserError(f"{store}: no such store")
    opened = open_runs(runs, Places(store, tokenizer, index))
    if index is not None:
        for run in opened:
            if run.retriever is None:
                raise UserError(f"--index needs the documents of {run.folder.path}: name them with --store")
    if funnel is not None:
        if len(opened) != 1:
            raise UserError("--funnel draws one run")
        opened[0].require_update()
        with opened[0].index() as base:
            found = evidence_funnel(base, [*read_pairs(query or ""), ("by", by)])
        write_output(funnel, funnel_figure(found, by), force=force)
        return typer.echo(f"written: {funnel}")
    if export is not None:
        for run in opened:
            run.require_update()
        content = answers(Api(opened, __version__), Chosen(tuple(trajectory or ()), group, query))
        write_output(export, page(content, Build.shipped()), force=force)
        return typer.echo(f"written: {export}")
    if trajectory or group is not None or query is not None:
        raise UserError("--trajectory, --group and --query choose what is written: name --export as well")
    return serve(
        opened,
        host=host,
        port=port,
        browse=not no_open,
        announce=lambda address: typer.echo(f"{address}   (Ctrl-C ends it)"),
    )


def _print(chosen: Sequence[Trajectory], limit: int, *, table: bool, svg: Path | None, force: bool) -> None:
    """Print trajectories, or a table of them: turns, observations, rewards."""
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
        parts = [p for turn in t.turns if not turn.dropped for m in turn.observation for p in _parts(m)]
        images = sum(isinstance(part, dict) and "image" in part for part in parts)
        place = (shown(t.sample.get("question_id")), str(t.number), _status(t, t.status))
        table.add_row(
            str(number), *place, str(len(t.turns)), str(t.response_tokens), str(images), f"{t.reward:.3f}"
        )
    return table


def _whole(trajectory: Trajectory) -> RenderableType:
    sample = trajectory.sample
    head = Table.grid(padding=(0, 2))
    head.add_row("question", shown(sample.get("question")))
    answers = sample.get("answers") or ["(unanswerable)"]
    answers = ", ".join(map(str, answers)) if isinstance(answers, list) else answers
    head.add_row("reference", shown(answers))
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
    """Return action and effect of a turn in a few words; others than our environments' as they stand."""
    try:
        action, effect = info.get("action") or {}, info.get("effect") or {}
        facts = [str(action["kind"])] if "kind" in action else []
        if info.get("valid") is False:
            facts.append(f"invalid: {info.get('detail') or info.get('reason')}")
        if effect.get("kind") not in (None, action.get("kind")):
            facts.append(str(effect["kind"]).replace("_", " "))
        for page in effect.get("pages", ()):
            gold = ", gold" if page.get("gold") else ""
            score = f"score {page.get('score', 0.0):.2f}"
            facts.append(f"{page['page']} (rank {page.get('rank')}, {score}{gold})")
        return facts
    except (AttributeError, KeyError, TypeError, ValueError):
        return [json.dumps(info)]


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


def _parts(message: dict[str, Any]) -> list[Any]:
    parts = message.get("parts")
    return parts if isinstance(parts, list) else [message]
