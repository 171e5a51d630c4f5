"""`docagent-rl ask`: have an agent answer a question about your own documents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import shown, text_problem
from docagent_rl.checks.recipe_list import located, require_recipes
from docagent_rl.commands.asking import within_budget
from docagent_rl.commands.options import argument, model_options, option
from docagent_rl.commands.playing import check_model, given_temperature, open_player
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.listening import require_listening
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.samples.sample import LONGEST_TEXT

if TYPE_CHECKING:
    from docagent_rl.lab.eval.ask.workspace import Workspace
    from docagent_rl.rollout.trajectory import Trajectory

_ONE_DOCUMENT = "alden_qwen2_5_vl_7b"
"""Default recipe for a question about one document."""
_SEVERAL_DOCUMENTS = "vrag_rl_qwen2_5_vl_7b"
_OF_RECIPE = "recipe"


@model_options("model")
def ask_command(
    documents: list[Path] | None = argument(
        None, "PDFs to ask about, or one folder of them.", metavar="[DOC.pdf... | FOLDER]"
    ),
    question: str = argument(..., "Question about the documents."),
    *,
    recipe: str | None = option(
        None,
        f"Recipe of the system that plays; default: {_ONE_DOCUMENT} for one document, "
        f"{_SEVERAL_DOCUMENTS} for several.",
    ),
    retriever: str | None = option(
        None,
        f"Retriever: one of recipes/retriever, such as bm25, or '{_OF_RECIPE}' for the recipe's "
        "own; default: hybrid.",
    ),
    store: Path | None = option(
        None, "Document store, made by `ingest`, to ask about instead of documents."
    ),
    index: Path | None = option(
        None, "With --store: index to search; default: one that is built and kept for the store."
    ),
    url: str | None = option(None, "With --store: address of an `index serve` server to search."),
    keep_in: Path | None = option(
        None,
        "Folder for ingested documents and indexes; default: ask/ in DOCAGENT_WORKSPACE or "
        "~/.cache.",
    ),
    override: list[str] | None = option(
        None, "Override a key of the recipe; may be repeated.", "--set", metavar="KEY=VALUE"
    ),
    out: Path | None = option(None, "Folder for the trajectory, which `docagent-rl view` opens."),
    json_output: bool = option(False, "Print one JSON object and nothing else.", "--json"),
    seed: int = option(0, "Seed of all sampling."),
    model: ModelConfig,
) -> None:
    """Ask an agent about PDFs, a folder or a store; print the answer and the pages it rests on.

    The first question ingests and indexes the documents. Later questions start at once; only new
    and changed files of a folder are read. Nothing is written to the folder or the store. --model
    works as in `docagent-rl eval`. The exit status is 0 if there is an answer and 1 if not.

    Example: docagent-rl ask report.pdf "Who wrote it?" --base-url http://127.0.0.1:8000/v1 --model
    m

    Example: docagent-rl ask "Who wrote it?" --store data/store --index data/bm25 --base-url URL
    --model m
    """
    if out is not None and out.exists():
        raise UserError(f"--out {out} already exists: name another folder")
    if problem := text_problem(question, LONGEST_TEXT):
        raise UserError(f"the question {problem}")
    _check_choices(recipe, store, index, url, retriever)
    check_model(Agent.SYSTEM, model, override or ())

    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.eval.ask.answer import answer_json, answer_report, print_answer, print_turn
    from docagent_rl.lab.eval.ask.workspace import (
        build_indexes,
        cache_folder,
        configure_for_asking,
        give_roles,
        own_question,
        search_at,
    )
    from docagent_rl.lab.eval.evaluation import Evaluation
    from docagent_rl.lab.eval.play_config import check_play, play_config
    from docagent_rl.rollout.recorder import listening

    progress = Console(stderr=True)
    workspace = _workspace(documents or [], store, keep_in or cache_folder())
    for failure in workspace.failed:
        progress.print(shown(f"left out: {failure.name}: {failure.reason}"), soft_wrap=True)
    name = recipe or (_ONE_DOCUMENT if len(workspace.doc_ids) == 1 else _SEVERAL_DOCUMENTS)
    retriever = retriever or ("bm25" if index or url else "hybrid")
    chosen = [] if retriever == _OF_RECIPE else [f"+retriever={retriever}"]
    changes = [*(override or ()), *chosen]
    run = play_config(name, Agent.SYSTEM, changes, temperature=given_temperature(model))
    sample = own_question(workspace, question)
    configure_for_asking(run, workspace)
    _announce_roles(give_roles(run, model, override or ()), model, progress)
    search_at(run, index=index, url=url)
    parsed = check_play(run, [sample])
    build_indexes(workspace, parsed)

    async def play() -> Trajectory:
        player = await open_player(run, parsed, Agent.SYSTEM, model, seed=seed)
        try:
            if out is not None:
                evaluation = Evaluation(name, Agent.SYSTEM, run, [sample], 1, seed, override or ())
                RunFolder(out).begin(evaluation.manifest(player))
            with listening(lambda trajectory: print_turn(trajectory, progress)):
                return await player.play(sample, 0)
        finally:
            await player.close()

    with within_budget(model), progress.status("playing"):
        trajectory = asyncio.run(play())
    found = answer_report(trajectory)
    if json_output:
        typer.echo(answer_json(trajectory, found))
    else:
        print_answer(found, Console())
    if out is not None:
        with RunFolder(out).writing() as append:
            append(trajectory)
    if found.text is None:
        raise typer.Exit(1)


def _check_choices(
    recipe: str | None,
    store: Path | None,
    index: Path | None,
    url: str | None,
    retriever: str | None,
) -> None:
    """Check the recipe's name, and the options that say where to search; a server has to listen."""
    if recipe is not None:
        name, root = located(recipe)
        require_recipes([name], root)
    if (index or url) and not store:
        raise UserError("--index and --url search the documents of a store: name it with --store")
    if sum(each is not None for each in (index, url, retriever)) > 1:
        raise UserError("--index, --url and --retriever all say where to search: give one of them")
    if url is not None:
        require_listening(url, "--url")


def _announce_roles(roles: Sequence[str], model: ModelConfig, console: Console) -> None:
    """Print which roles the model that plays has got, and how to name others."""
    if roles:
        text = f"{model.model} also plays {', '.join(roles)}"
        other = "--set docagent.roles.NAME.base_url=... names another model"
        console.print(f"{text}; {other}", markup=False, highlight=False)


def _workspace(documents: list[Path], store: Path | None, root: Path) -> Workspace:
    """Return the store, or the documents, which are ingested into `root` if they are not there."""
    from docagent_rl.lab.eval.ask.workspace import mirror_folder, open_workspace, prepare

    if store is not None:
        if documents:
            raise UserError(
                "name documents, or a store that already contains them with --store, but not both"
            )
        return open_workspace(store, root)
    if not documents:
        raise UserError(
            'name documents, a folder or --store: docagent-rl ask report.pdf "Who wrote it?"'
        )
    folders = [each for each in documents if each.is_dir()]
    if folders and len(documents) > 1:
        raise UserError(f"{folders[0]} is a folder: name either a single folder or PDFs")
    return mirror_folder(folders[0], root) if folders else prepare(documents, root)
