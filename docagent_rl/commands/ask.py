"""`docagent-rl ask`: an agent answers a question about documents of one's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import text_problem
from docagent_rl.commands.asking import spending
from docagent_rl.commands.options import argument, model_options, option
from docagent_rl.commands.playing import check_model, open_player
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.samples.sample import LONGEST_TEXT

if TYPE_CHECKING:
    from docagent_rl.rollout.trajectory import Trajectory

ONE, SEVERAL = "alden_qwen2_5_vl_7b", "vrag_rl_qwen2_5_vl_7b"
"""Recipes for one document, and for several."""
OF_RECIPE = "recipe"


@model_options("model")
def ask_command(
    documents: list[Path] = argument(
        ..., "PDFs to ask about.", metavar="DOC.pdf...", exists=True, dir_okay=False
    ),
    question: str = argument(..., "Question about the PDFs."),
    *,
    recipe: str | None = option(None, f"Recipe of the system that plays; default: {ONE} or {SEVERAL}."),
    retriever: str = option("hybrid", f"One of recipes/retriever, e.g. bm25; {OF_RECIPE}: the recipe's own."),
    store: Path | None = option(None, "Folder for ingested documents; default: ~/.cache/docagent-rl."),
    override: list[str] | None = option(None, "Override a key of the recipe.", "--set", metavar="KEY=VALUE"),
    out: Path | None = option(None, "Folder for the trajectory, which `docagent-rl view` opens."),
    json_output: bool = option(False, "Print one JSON object and nothing else.", "--json"),
    seed: int = option(0, "Seed of all sampling."),
    model: ModelConfig,
) -> None:
    """Ask an agent about PDFs, and print its answer with the pages that it rests on.

    The first question ingests and indexes the documents; later questions about the same files begin at once.
    --model works as for `docagent-rl eval`. The exit status is 0 with an answer, 1 without.

    Example: docagent-rl ask report.pdf "Who wrote it?" --base-url http://127.0.0.1:8000/v1 --model m
    """
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.eval.ask.answer import answer_json, answered, tell_answer, tell_turn
    from docagent_rl.lab.eval.ask.workspace import (
        build_indexes,
        cache_folder,
        own_question,
        prepare,
        set_for_asking,
    )
    from docagent_rl.lab.eval.evaluation import Evaluation
    from docagent_rl.lab.eval.play_config import check_play, play_config
    from docagent_rl.rollout.recorder import listening

    check_model(Agent.SYSTEM, model)
    if out is not None and out.exists():
        raise UserError(f"--out {out} is there already: name another folder")
    if problem := text_problem(question, LONGEST_TEXT):
        raise UserError(f"the question {problem}")
    name = recipe or (ONE if len(documents) == 1 else SEVERAL)
    chosen = [] if retriever == OF_RECIPE else [f"+retriever={retriever}"]
    run = play_config(name, Agent.SYSTEM, [*(override or ()), *chosen])
    workspace = prepare(documents, (store or cache_folder()) / "ask")
    sample = own_question(workspace, question)
    set_for_asking(run, workspace)
    parsed = check_play(run, [sample])
    build_indexes(workspace, parsed)
    progress = Console(stderr=True)

    async def play() -> Trajectory:
        player = await open_player(run, parsed, Agent.SYSTEM, model, seed=seed)
        try:
            if out is not None:
                evaluation = Evaluation(name, Agent.SYSTEM, run, [sample], 1, seed, override or ())
                RunFolder(out).begin(evaluation.manifest(player))
            with listening(lambda trajectory: tell_turn(trajectory, progress)):
                return await player.play(sample, 0)
        finally:
            await player.close()

    with spending(model), progress.status("playing"):
        trajectory = asyncio.run(play())
    found = answered(trajectory)
    if json_output:
        typer.echo(answer_json(trajectory, found))
    else:
        tell_answer(found, Console())
    if out is not None:
        with RunFolder(out).writing() as append:
            append(trajectory)
    if found.text is None:
        raise typer.Exit(1)
