"""`docagent-rl report`: compare the numbers of runs with the papers' and with each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_outputs, written_before
from docagent_rl.base.seals import Seal
from docagent_rl.base.text import counted
from docagent_rl.commands.asking import resumable
from docagent_rl.commands.options import argument, model_options, option
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.listening import require_listening
from docagent_rl.endpoints.meter import Meter

if TYPE_CHECKING:
    from docagent_rl.lab.eval.report.benchmark import ReportSettings
    from docagent_rl.lab.eval.report.runs import ScoredRun


@model_options("judge", prefix="judge-")
def report_command(
    runs: list[Path] = argument(..., "Folders of runs.", metavar="RUN..."),
    out: Path = option(..., "Folder for report.md and report.json."),
    *,
    judge: ModelConfig,
    paired: bool = option(False, "Compare two runs question by question.", "--paired"),
    pass_at: list[int] | None = option(None, "Report pass@K too; may be repeated.", min=1),
    draws: int = option(10_000, "Bootstrap resamples of documents.", min=1),
    seed: int = option(0, "Seed of the resamples."),
    submissions: bool = option(
        False,
        "Also write the answers to questions of DUDE and MP-DocVQA as their servers take them.",
        "--submissions",
    ),
    force: Force = False,
) -> None:
    """Score runs and compare them with the papers' numbers, with intervals and breakdowns.

    If a benchmark needs a judge or an extractor and none is named, the embedded rule judge is used
    instead, and its numbers are marked. A judge's replies are cached in the run's folder, so the
    same command resumes.

    Example: docagent-rl report runs/grpo runs/spo --out report --paired --judge-base-url
    http://127.0.0.1:8000/v1 --judge-model Qwen/Qwen2.5-72B-Instruct
    """
    from docagent_rl.lab.agents.run_folder import run_names
    from docagent_rl.lab.eval.report.benchmark import ReportSettings
    from docagent_rl.lab.eval.report.report import DATA, PAGE

    if paired and len(runs) != 2:
        raise UserError(f"--paired compares two runs, but {len(runs)} are named")
    if submissions and len(runs) != 1:
        raise UserError(f"--submissions takes the answers of one run, but {len(runs)} are named")
    if judge.base_url:
        require_listening(judge.base_url, "--judge-base-url")
    more = _submissions(runs[0]) if submissions else {}
    names = run_names(runs)
    with resumable():
        scored = asyncio.run(_scored(runs, names, judge))
    settings = ReportSettings(draws, seed, tuple(sorted(set(pass_at or ()))))
    report(scored, settings, out, paired=paired, force=force, more=more)
    Console().print(f"written: {out / PAGE}, {DATA}", markup=False, highlight=False)


def report(
    runs: Sequence[ScoredRun],
    settings: ReportSettings,
    out: Path,
    *,
    paired: bool = False,
    brief: bool = False,
    force: bool,
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the report on scored runs, which replaces an earlier report, and print its tables; with
    `brief`, print only those of answers. `more` are further files by name.

    Raises:
        UserError: One of the files exists and is not from a report; nothing was written.
    """
    from docagent_rl.lab.eval.report.grid import rendered
    from docagent_rl.lab.eval.report.report import DATA, OF_ANSWERS, PAGE, make_report

    found = make_report(runs, settings, paired=paired)
    earlier = written_before(out / DATA, "docagent_rl_report") is not None
    contents = {out / name: content for name, content in {**found.files, **more}.items()}
    seal = Seal(out)
    # `out` has a seal if it is the folder of a run
    with seal.writing(*contents) if seal.path.is_file() else nullcontext():
        write_outputs(contents, force=force or earlier)
    shown_grids = found.grids
    if brief:
        shown_grids = [grid for grid in found.grids if grid.title.endswith(OF_ANSWERS)]
    for grid in shown_grids:
        Console().print(rendered(grid))
    if hidden := len(found.grids) - len(shown_grids):
        Console().print(
            f"{out / PAGE} has {counted(hidden, 'further table')}", markup=False, highlight=False
        )


def _submissions(run: Path) -> dict[str, str]:
    """Return the files for servers, and print how many questions each has and should have."""
    from docagent_rl.lab.agents.run_folder import trajectories_of
    from docagent_rl.lab.eval.report.submissions import submissions

    found = submissions(trajectories_of(run))
    for name, each in found.items():
        note = "" if each.entries == each.expected else ", fewer or more than its server expects"
        Console(stderr=True).print(
            f"{name}: {each.entries} of {each.expected} test questions{note}", markup=False
        )
    return {name: each.text for name, each in found.items()}


async def _scored(
    paths: Sequence[Path], names: Sequence[str], judge: ModelConfig
) -> list[ScoredRun]:
    from docagent_rl.checkpoints.file_status import require_whole
    from docagent_rl.endpoints.remote_model import open_model
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.eval.report.runs import ScoredRun
    from docagent_rl.lab.eval.run_facts import expected_trajectories
    from docagent_rl.lab.eval.scoring.run import ScoringSettings, paper_roles, score_run

    folders = [RunFolder(path) for path in paths]
    manifests = [folder.manifest() for folder in folders]
    require_whole(folder.trajectories_file for folder in folders)
    roles = frozenset(paper_roles(folders))
    meter = Meter(**judge.budget.model_dump())
    found = []
    columns = (TextColumn("{task.description}"), MofNCompleteColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            for number, (folder, manifest) in enumerate(zip(folders, manifests, strict=True)):
                title = f"scoring run {number + 1} of {len(paths)}"
                task = progress.add_task(title, total=expected_trajectories(manifest))
                # each run keeps its judges' replies, so that it can be reported on by itself
                cache = judge.cache_dir or folder.path / "verdicts"
                async with AsyncExitStack() as opened:
                    asked = judge.base_url or judge.model
                    model = open_model(judge, "judge", cache, meter=meter) if asked else None
                    if model is not None:
                        opened.push_async_callback(model.aclose)
                        if number == 0:
                            await model.check()
                    settings = ScoringSettings(model, roles)
                    trajectories = await score_run(
                        folder, settings, lambda _, at=task: progress.advance(at)
                    )
                found.append(ScoredRun(names[number], trajectories, manifest))
    finally:
        if meter.accounts:
            Console(stderr=True).print(meter.table())
    return found
