"""Time the viewer on a large run: index, requests of the page, a long trajectory, stored credit."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.common import show
from benchmarks.viewer_page import CHROMIUM, page_costs
from docagent_rl.lab.viewer.api import Api
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.runs import OpenRun
from docagent_rl.rollout.credit import TOKENS, CreditRow, write_credit

_GROUP = 8
_STEP = 256
"""Trajectories of a step."""


def repeated(
    lines: list[dict[str, Any]], trajectories: int, tokens: int
) -> Iterator[dict[str, Any]]:
    """Yield trajectories of a run repeatedly, each time as trajectories of other groups and steps.

    Args:
        lines: the run's trajectories; their turns are changed.
        trajectories: how many to yield.
        tokens: the number of tokens that each turn gets.
    """
    for number in range(trajectories):
        line = lines[number % len(lines)]
        for turn in line["turns"]:
            for name in ("token_ids", "log_probs", "trainer_log_probs"):
                if turn.get(name) is None:  # a turn of a validation has no trainer's log-probs
                    continue
                turn[name] = (turn[name] * (tokens // max(1, len(turn[name])) + 1))[:tokens]
        yield {
            **line,
            "uid": f"group{number // _GROUP}",
            "number": number % _GROUP,
            "step": 1 + number // _STEP,
            "split": "train",
        }


def write_run(folder: Path, made: Iterator[dict[str, Any]]) -> int:
    """Write a run of these trajectories, one file for each step, and return its bytes."""
    size, file = 0, None
    (folder / "trajectories").mkdir(parents=True)
    for line in made:
        path = folder / "trajectories" / f"{line['step']}.jsonl"
        if file is None or Path(file.name) != path:
            if file is not None:
                file.close()
            file = path.open("wb")
        size += file.write(json.dumps(line).encode() + b"\n")
    if file is not None:
        file.close()
    return size


def long_trajectory(line: dict[str, Any], turns: int) -> dict[str, Any]:
    """Return the trajectory with its turns repeated until there are `turns` of them."""
    many = (line["turns"] * (turns // len(line["turns"]) + 1))[:turns]
    return {**line, "uid": "long", "number": 0, "step": 1_000_000, "split": "train", "turns": many}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Call a function, and return the seconds that it took and its result."""
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def credit_cost(folder: Path, rows: int, tokens: int) -> tuple[float, float]:
    """Write a step's credit, with noise as the five numbers of each token.

    Returns:
        the seconds it took, and the bytes per token.
    """
    random = np.random.default_rng(0)
    made = [
        CreditRow(
            f"u{n // _GROUP}", n % _GROUP, 0, {name: random.normal(size=tokens) for name in TOKENS}
        )
        for n in range(rows)
    ]
    seconds, path = timed(lambda: write_credit(folder, 1, "turn_gae", made))
    return seconds, path.stat().st_size / (rows * tokens)


def main(
    run: Annotated[Path, typer.Argument(help="A run whose trajectories are repeated.")],
    trajectories: Annotated[int, typer.Option(help="Trajectories of the large run.")] = 10_000,
    tokens: Annotated[int, typer.Option(help="Sampled tokens of each turn.")] = 150,
    turns: Annotated[int, typer.Option(help="Of the long trajectory.")] = 200,
    rows: Annotated[
        int, typer.Option(help="Training rows, of 1,000 tokens each, whose credit is written.")
    ] = 1024,
) -> None:
    """Print the seconds and the size of each thing that the viewer does."""
    source = ViewedRun(run)
    lines = [
        json.loads(line)
        for name in source.trajectory_files()
        for line in (source.path / name).read_text(encoding="utf-8").splitlines()
    ]
    found: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        size = write_run(folder, repeated(lines, trajectories, tokens))
        with (folder / "trajectories" / "1000000.jsonl").open("w") as file:
            file.write(
                json.dumps(long_trajectory(max(lines, key=lambda line: len(line["turns"])), turns))
                + "\n"
            )
        opened = OpenRun(0, "run", ViewedRun(folder))
        seconds, _ = timed(opened.update)
        index = opened.folder.index_file.stat().st_size
        found.append(
            (
                f"index of {trajectories} trajectories",
                f"{seconds:.2f}",
                f"{size / 1e6:.0f} MB, {index / 1e6:.0f}",
            )
        )
        again = OpenRun(0, "run", ViewedRun(folder))
        first = Api([again])
        found.append(
            (
                "open it again, and the first list",
                f"{timed(lambda: _open(again, first))[0]:.3f}",
                "",
            )
        )
        for path, query in _ASKED:
            spent, reply = timed(
                lambda path=path, query=query: first.answer(f"/api/runs/0/{path}", query)
            )
            found.append((f"{path}?{query}", f"{spent:.3f}", f"{len(reply.content) / 1e3:.0f} kB"))
        (row,) = json.loads(first.answer("/api/runs/0/trajectories", "uid=long").content)["rows"]
        spent, reply = timed(lambda: first.answer(f"/api/runs/0/trajectories/{row['id']}"))
        found.append(
            (f"a trajectory of {turns} turns", f"{spent:.3f}", f"{len(reply.content) / 1e3:.0f} kB")
        )
        if CHROMIUM is None:
            found.append(("the page in a browser", "-", "no Chromium on this machine"))
        else:
            found += [
                (
                    f"page: {cost.view}",
                    f"{cost.seconds:.2f}",
                    f"{cost.heap / 1e6:.1f} MB, {cost.nodes} nodes",
                )
                for cost in page_costs(folder, str(row["id"]))
            ]
        spent, each = credit_cost(folder, rows, 1000)
        found.append(
            (
                f"write the credit of {rows} rows of 1,000 tokens",
                f"{spent:.2f}",
                f"{each:.1f} bytes a token",
            )
        )
    show("The viewer", ("what", "seconds", "size"), found)


_ASKED = (
    ("trajectories", "sort=reward&order=desc&limit=100"),
    ("trajectories", "q=section&split=train&reward=0.1:1&sort=term:outcome"),
    ("facets", ""),
    ("facets", "status=finished&turns=2-4"),
    ("funnel", "by=step"),
    ("warnings", ""),
)


def _open(run: OpenRun, api: Api) -> None:
    run.update()
    api.answer("/api/runs")
    api.answer("/api/runs/0/trajectories")
    api.answer("/api/runs/0/facets")


if __name__ == "__main__":
    typer.run(main)
