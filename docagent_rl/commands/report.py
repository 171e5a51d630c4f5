"""`docagent-rl report`: what runs came to, beside the papers' numbers and each other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.base.outputs import Force, check_output
from docagent_rl.commands.endpoint_options import model_options
from docagent_rl.endpoints.model_config import ModelConfig

if TYPE_CHECKING:
    from docagent_rl.lab.eval.scoring.run import ScoringSettings

PAGE, DATA = "report.md", "report.json"


@model_options("judge", prefix="judge-")
@model_options("second_judge", prefix="second-judge-", shared=False)
def report_command(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    out: Annotated[Path, typer.Option(help="Folder for report.md, report.json and report.svg.")],
    judge: ModelConfig,
    second_judge: ModelConfig,
    paired: Annotated[bool, typer.Option("--paired", help="Compare two runs question by question.")] = False,
    pass_at: Annotated[
        list[int] | None, typer.Option(help="Also how likely one of this many sessions is right.", min=1)
    ] = None,
    price_in: Annotated[float | None, typer.Option(help="Of the runs' model: a million tokens sent.")] = None,
    price_out: Annotated[float | None, typer.Option(help="The same: a million tokens sampled.")] = None,
    price_cached: Annotated[
        float | None, typer.Option(help="The same: a million tokens that were sent before.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Resamples of documents.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the resamples.")] = 0,
    force: Force = False,
) -> None:
    """Score runs, and print and write their numbers beside the papers', with intervals and breakdowns.

    Where a benchmark needs a judge or an extractor and none is named, the embedded rule judge stands in, and
    its numbers are marked. Scores are kept in the folder of a run; what was asked of a judge is kept as well,
    so that the same command goes on where it was stopped.

    Example: docagent-rl report runs/grpo runs/spo --out report --paired --judge-base-url
    http://127.0.0.1:8000/v1 --judge-model Qwen/Qwen2.5-72B-Instruct
    """
    from docagent_rl.lab.eval.report.build import ReportSettings, ScoredRun
    from docagent_rl.lab.eval.report.making import PICTURE, make_report
    from docagent_rl.lab.eval.report.terminal import rendered

    if paired and len(runs) != 2:
        raise UserError(f"--paired compares two runs, {len(runs)} are named")
    price = _price(price_in, price_out, price_cached)
    names = run_names(runs)
    try:
        scored = asyncio.run(_scored(runs, judge, second_judge, price))
    except KeyboardInterrupt:
        told = "stopped; what the judges said so far is kept, and the same command goes on"
        Console(stderr=True).print(told)
        raise typer.Exit(130) from None
    settings = ReportSettings(draws, seed, tuple(sorted(set(pass_at or ()))))
    found = make_report(
        [ScoredRun(name, *each) for name, each in zip(names, scored, strict=True)], settings, paired=paired
    )
    write_report({PAGE: found.page, DATA: found.data, PICTURE: found.picture}, out, force=force)
    console = Console()
    for grid in found.grids:
        console.print(rendered(grid))
    console.print(f"written: {out / PAGE}, {DATA}, {PICTURE}", markup=False, highlight=False)


def run_names(runs: Sequence[Path]) -> list[str]:
    """Short names of runs: of their folders, with as many folders above as tell them apart.

    Raises:
        UserError: a run is named twice.
    """
    paths = [path.resolve() for path in runs]
    if len(set(paths)) < len(paths):
        raise UserError("a run is named twice")
    longest = max(len(path.parts) for path in paths)
    for depth in range(1, longest + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def write_report(files: dict[str, str], out: Path, *, force: bool) -> None:
    """Write the files of a report; those of an earlier report are replaced.

    Raises:
        UserError: something else is there; nothing was written.
    """
    earlier = _is_report(out / DATA)
    for name, content in files.items():
        check_output(out / name, content, force=force, ours=lambda _: earlier)
    for name, content in files.items():
        atomic_write(out / name, content)


async def _scored(
    runs: Sequence[Path], judge: ModelConfig, second: ModelConfig, price: Any
) -> list[tuple[Any, dict[str, Any]]]:
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.eval.report.build import expected_sessions
    from docagent_rl.lab.eval.scoring.run import paper_experts, score_run

    if second.named and not judge.named:
        raise UserError("a second judge needs a first one: give --judge-base-url and --judge-model")
    folders = [RunFolder(path) for path in runs]
    manifests = [folder.manifest() for folder in folders]
    experts = frozenset(paper_experts(folders))
    meter = judge.make_meter()
    configs = [
        (config, name)
        for config, name in ((judge, "judge"), (second, "second judge"))
        if config.base_url or config.model
    ]
    found = []
    columns = (TextColumn("{task.description}"), MofNCompleteColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            for number, (folder, manifest) in enumerate(zip(folders, manifests, strict=True)):
                # each run keeps what its judges said, so that it can be reported on alone
                cache = judge.cache_dir or folder.path / "verdicts"
                models = [config.open(name, cache, meter=meter) for config, name in configs]
                name = f"scoring run {number + 1} of {len(runs)}"
                task = progress.add_task(name, total=expected_sessions(manifest))
                try:
                    for model in models if number == 0 else ():
                        await model.check()
                    sessions = await score_run(
                        folder, _settings(models, experts, price), lambda _, at=task: progress.advance(at)
                    )
                finally:
                    for model in models:
                        await model.aclose()
                found.append((sessions, manifest))
    finally:
        if meter.accounts:
            Console(stderr=True).print(meter.table())
    return found


def _settings(models: Sequence[Any], experts: frozenset[Any], price: Any) -> ScoringSettings:
    from docagent_rl.lab.eval.scoring.asking import ModelPanel
    from docagent_rl.lab.eval.scoring.run import ScoringSettings

    if not models:
        return ScoringSettings(experts=experts, price=price)
    first, *others = map(ModelPanel, models)
    return ScoringSettings(first, others[0] if others else None, experts, price)


def _price(sent: float | None, sampled: float | None, cached: float | None) -> Any:
    from docagent_rl.endpoints.endpoint import Price

    if sent is None and sampled is None and cached is None:
        return None
    if sent is None or sampled is None:
        raise UserError("give both prices, --price-in and --price-out")
    try:
        return Price(sent, sampled, cached)
    except ValueError as error:
        raise UserError(str(error)) from error


def _is_report(path: Path) -> bool:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and "docagent_rl_report" in found
