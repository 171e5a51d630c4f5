"""`docagent-rl data rewrite`: have questions name their page, as ALDEN does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output
from docagent_rl.base.text import shown
from docagent_rl.commands.asking import resumable, within_budget
from docagent_rl.commands.options import argument, model_options, option
from docagent_rl.endpoints.endpoint import ModelConfig

if TYPE_CHECKING:
    from docagent_rl.lab.generate.page_references import Rewriting


@model_options()
def rewrite_command(
    samples: Path = argument(..., "Questions, .jsonl or .parquet, from `data import`."),
    out: Path = option(..., ".jsonl or .parquet file to write."),
    *,
    endpoint: ModelConfig,
    votes: int | None = option(
        None,
        "Replies per question, an odd number, of which the majority decides; default: 3, or 1 at "
        "temperature 0.",
        min=1,
    ),
    prompt: str = option("page_reference", "Prompt by name, or a .yaml file of your own."),
    force: Force = False,
) -> None:
    """Have questions that assume an open page begin with its number, as ALDEN's training data do.

    A model decides whether a question's own words lead to its page. Questions without a gold page,
    with several, or that name a page already are not asked about. All questions are written,
    changed or not; a table counts them by filter. Replies are cached in <out>.replies, so the same
    command resumes.

    Example: docagent-rl data rewrite mp_docvqa.jsonl --out rewritten.jsonl --base-url
    http://127.0.0.1:8000/v1 --model gpt-4o --temperature 0.7
    """
    from docagent_rl.base.prompts import load_prompt
    from docagent_rl.endpoints.remote_model import open_model
    from docagent_rl.lab.generate.page_references import PROMPT, Rewriting
    from docagent_rl.samples.parquet import parquet_bytes, read_samples
    from docagent_rl.samples.sample import json_lines

    votes = votes or (3 if endpoint.temperature else 1)
    if votes % 2 == 0:
        raise UserError(f"--votes {votes}: an even number has no majority")
    if out.suffix not in (".jsonl", ".parquet"):
        raise UserError(f"--out {out}: name a .jsonl or a .parquet file")
    endpoint.require("`data rewrite`")
    template = load_prompt(prompt, PROMPT)
    questions = read_samples(samples)
    with within_budget(endpoint):
        model = open_model(endpoint, "model", out.with_name(f"{out.name}.replies"))
        run = Rewriting(questions, model, votes, template)
        _ask(run)
    Console().print(_table(run))
    result = run.result()
    content = parquet_bytes(result) if out.suffix == ".parquet" else json_lines(result)
    new = write_output(out, content, force=force)
    typer.echo(f"{out}: {len(result)} questions{'' if new else ', unchanged'}")
    for why, count in run.unanswered.most_common():
        Console(stderr=True).print(
            shown(
                f"{count} questions stay as they are without a label ({why}): the same command "
                "with --force asks again"
            )
        )


def _ask(run: Rewriting) -> None:
    """Ask about the questions that filters leave, with a progress bar on standard error."""
    console = Console(stderr=True)
    places = run.asked

    async def work(bar: Progress) -> None:
        task = bar.add_task("Labelling questions", total=len(places))
        if places:
            await run.model.check()
        try:
            await run.run(lambda: bar.advance(task))
        finally:
            await run.model.aclose()

    with (
        resumable(),
        Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        asyncio.run(work(bar))


def _table(run: Rewriting) -> Table:
    table = Table("question", title=f"{len(run.samples)} questions", title_justify="left")
    table.add_column("count", justify="right")
    for outcome, count in run.counts().items():
        table.add_row(outcome, str(count))
    return table
