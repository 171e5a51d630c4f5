"""`docagent-rl probe`: what is left of a score without the pages."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from docagent_rl.base.io import atomic_write
from docagent_rl.base.outputs import Force, check_output
from docagent_rl.commands.asking import interrupted, spending
from docagent_rl.commands.endpoint_options import model_options
from docagent_rl.commands.players import (
    check_model,
    in_process,
    open_player,
    other_documents,
    trajectories_at_a_time,
)
from docagent_rl.commands.replies import keep_replies
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.eval.choices import Agent, Condition

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory
    from docagent_rl.rollout.recorder import Player
    from docagent_rl.samples.sample import Sample

PAGE, DATA = "probe.md", "probe.json"


@model_options("model")
def probe_command(
    recipe: Annotated[str, typer.Argument(help="Whose system, retriever, judge and limits; see `recipes`.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="After --, as on Hydra's command line.", metavar="[-- KEY=VALUE...]"),
    ] = None,
    *,
    data: Annotated[Path, typer.Option(help="Questions: .jsonl or .parquet, of `data import` or your own.")],
    out: Annotated[Path, typer.Option(help="Folder of the runs; the same command goes on in it.")],
    condition: Annotated[
        list[Condition] | None, typer.Option(help="What is done to the documents; default: all.")
    ] = None,
    agent: Annotated[
        Agent, typer.Option(help="The recipe's system, or what it is compared with.")
    ] = Agent.SYSTEM,
    trajectories: Annotated[int, typer.Option(min=1, help="Of each question.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="So many of the questions, by chance.")] = None,
    seed: Annotated[int, typer.Option(help="Of that choice, of sampling and of exchanged pages.")] = 0,
    at_a_time: Annotated[
        int | None,
        typer.Option(min=1, help="Trajectories played together; default: as many as the model takes."),
    ] = None,
    force: Force = False,
    model: ModelConfig,
) -> None:
    """Play the same questions with pages blanked, exchanged, or without evidence, and say what is left.

    Searches find what they find in the documents as they are; what the agent is shown differs: as_is,
    blank (white pages without texts), text_layer (white pages with their texts), no_evidence (white where
    evidence is), shuffled (another document's pages). A reader of pages loses its score, a guesser keeps it.
    Models are named as to `docagent-rl eval`; every condition leaves a run of its own in OUT.

    Example: docagent-rl probe vrag_rl_qwen2_5_vl_7b --data mmlb.jsonl --out runs/probe --model runs/x
    """
    from docagent_rl.documents import DocumentStore
    from docagent_rl.lab.eval.evaluation import drawn, read_samples
    from docagent_rl.lab.eval.play_config import check_play, play_config
    from docagent_rl.lab.eval.probe import shown_store

    check_model(agent, model)
    samples = drawn(read_samples(data), limit, seed)
    run = play_config(recipe, agent, overrides or ())
    parsed = check_play(run, samples)
    store = DocumentStore(parsed.store)
    chosen = dict.fromkeys((Condition.AS_IS, *(condition or Condition)))
    shown = {each: shown_store(each, store, samples, out / "stores", seed=seed) for each in chosen}
    runs = {}
    for each, path in shown.items():
        runs[each] = copy.deepcopy(run)
        runs[each].docagent.shown_store = None if path is None else str(path.resolve())
    try:
        with spending(model):
            scored = asyncio.run(
                _play(recipe, agent, model, samples, trajectories, seed, out, at_a_time, runs)
            )
    except KeyboardInterrupt:
        interrupted("Interrupted. What was played is kept; the same command goes on from here.")
    _tell(scored, out, seed, force=force)


async def _play(
    recipe: str,
    agent: Agent,
    model: ModelConfig,
    samples: Sequence[Sample],
    trajectories: int,
    seed: int,
    out: Path,
    at_a_time: int | None,
    runs: Mapping[Condition, DictConfig],
) -> dict[Condition, list[ScoredTrajectory]]:
    """Play the same questions under one condition after the other, and score them."""
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.agents.runner import RunSettings
    from docagent_rl.lab.eval.evaluation import Evaluation, evaluate
    from docagent_rl.lab.eval.scoring.run import ScoringSettings, score_run
    from docagent_rl.systems import get_system

    scored: dict[Condition, list[ScoredTrajectory]] = {}
    async with AsyncExitStack() as opened:
        player: Player | None = None
        for condition, run in runs.items():
            playing, caching = keep_replies(run, model, out)
            parsed = DocAgentConfig.parse(plain(playing.docagent))
            if player is not None and in_process(agent, model):
                # the engine, which takes a minute to start, stays
                player = other_documents(player, playing)
            else:
                player = await open_player(playing, parsed, agent, caching, seed=seed)
                opened.push_async_callback(player.close)
            Console(stderr=True).print(f"{condition.value}:", highlight=False)
            folder = RunFolder(out / condition.value)
            together = at_a_time or trajectories_at_a_time(model, run)
            settings = RunSettings(trajectories, together, parsed.rollout.trajectory_attempts)
            evaluation = Evaluation(recipe, agent, run, samples, trajectories, seed)
            await evaluate(evaluation, player, get_system(parsed.system).name, folder, settings)
            scored[condition] = await score_run(folder, ScoringSettings())
    return scored


def _tell(scored: dict[Condition, list[ScoredTrajectory]], out: Path, seed: int, *, force: bool) -> None:
    from docagent_rl.lab.eval.probe import as_json, grids_of, is_ours, left_of
    from docagent_rl.lab.eval.report.benchmark import ReportSettings
    from docagent_rl.lab.eval.report.grid import markdown, rendered

    found = left_of(scored, ReportSettings(seed=seed))
    grids = grids_of(found)
    for grid in grids:
        Console().print(rendered(grid))
    if not grids:
        Console().print("No question says what its right answer is, so that there is no score to be left of.")
    data = out / DATA
    earlier = data.is_file() and is_ours(data.read_bytes())
    files = {out / PAGE: markdown(grids, None), data: as_json(found)}
    for path, content in files.items():
        check_output(path, content, force=force, ours=lambda _: earlier)
    for path, content in files.items():
        atomic_write(path, content)
    where = f"{out}: {PAGE}, {DATA}, and a run for every condition (docagent-rl view)"
    Console(stderr=True).print(where, markup=False)
