"""`docagent-rl eval`: play a system or a baseline over questions, and score it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from docagent_rl.commands.asking import interrupted, spending
from docagent_rl.commands.endpoint_options import model_options
from docagent_rl.commands.players import check_model, open_player, trajectories_at_a_time
from docagent_rl.commands.replies import keep_replies
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.eval.choices import Agent

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.config import DocAgentConfig
    from docagent_rl.endpoints.endpoint import Price
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.agents.runner import RunSettings
    from docagent_rl.lab.eval.evaluation import Evaluation, Tally


@model_options("model")
def eval_command(
    recipe: Annotated[str, typer.Argument(help="Whose system, retriever, judge and limits; see `recipes`.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="After --, as on Hydra's command line.", metavar="[-- KEY=VALUE...]"),
    ] = None,
    *,
    data: Annotated[Path, typer.Option(help="Questions: .jsonl or .parquet, of `data import` or your own.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; the same command goes on in it.")],
    agent: Annotated[
        Agent, typer.Option(help="The recipe's system, or what it is compared with.")
    ] = Agent.SYSTEM,
    trajectories: Annotated[int, typer.Option(min=1, help="Of each question.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="So many of the questions, by chance.")] = None,
    seed: Annotated[int, typer.Option(help="Of that choice and of all sampling.")] = 0,
    at_a_time: Annotated[
        int | None,
        typer.Option(min=1, help="Trajectories played together; default: as many as the model takes."),
    ] = None,
    score: Annotated[
        bool, typer.Option(help="Score and report at the end, with the embedded judge where one is needed.")
    ] = True,
    model: ModelConfig,
) -> None:
    """Play a system or a baseline over questions, record every trajectory, and score them.

    --model NAME with --base-url is a model behind an OpenAI-compatible endpoint. Without an address it is a
    folder of weights, or a checkpoint of a run (global_step_N, or the run's folder for the latest), played in
    this process by vLLM. `docagent-rl view OUT` shows the trajectories, `docagent-rl report OUT` scores them
    with a judge. See docs/evaluation.md.

    Example: docagent-rl eval vrag_rl_qwen2_5_vl_7b --data mmlb.jsonl --out runs/e1 --model runs/x/checkpoints
    """
    from docagent_rl.documents import DocumentStore
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.agents.runner import RunSettings
    from docagent_rl.lab.eval.evaluation import Evaluation, drawn, read_samples, with_lengths
    from docagent_rl.lab.eval.play_config import changes_of, check_play, play_config

    check_model(agent, model)
    samples = drawn(read_samples(data), limit, seed)
    run = play_config(recipe, agent, overrides or ())
    playing, model = keep_replies(run, model, out)
    parsed = check_play(playing, samples)
    samples = with_lengths(samples, DocumentStore(parsed.store))
    changes = {} if agent.baseline else changes_of(run, play_config(recipe, agent))
    evaluation = Evaluation(recipe, agent, run, samples, trajectories, seed, changes)
    settings = RunSettings(
        trajectories, at_a_time or trajectories_at_a_time(model, run), parsed.rollout.trajectory_attempts
    )
    try:
        with spending(model):
            tally = asyncio.run(_play(evaluation, playing, parsed, model, RunFolder(out), settings))
    except KeyboardInterrupt:
        interrupted("Interrupted. What was played is kept; the same command goes on from here.")
    _tell(tally)
    if score:
        _report(RunFolder(out), model.price.price)
    Console(stderr=True).print(f"{out}: run.json, trajectories.jsonl; docagent-rl view {out}", markup=False)


async def _play(
    evaluation: Evaluation,
    playing: DictConfig,
    parsed: DocAgentConfig,
    model: ModelConfig,
    folder: RunFolder,
    settings: RunSettings,
) -> Tally:
    from docagent_rl.lab.eval.evaluation import evaluate
    from docagent_rl.systems import get_system

    player = await open_player(playing, parsed, evaluation.agent, model, seed=evaluation.seed)
    try:
        return await evaluate(evaluation, player, get_system(parsed.system).name, folder, settings)
    finally:
        await player.close()


def _tell(tally: Tally) -> None:
    from docagent_rl.lab.eval.evaluation import summary_table, unplayed_table

    console = Console()
    console.print(summary_table(tally))
    if (unplayed := unplayed_table(tally)) is not None:
        console.print(unplayed)


def _report(folder: RunFolder, price: Price | None) -> None:
    """The numbers of the benchmark; other judges are named to `docagent-rl report`.

    What a model has judged since then is kept: only that command asks one.
    """
    from docagent_rl.commands.report import report
    from docagent_rl.lab.eval.report.benchmark import ReportSettings
    from docagent_rl.lab.eval.report.runs import ScoredRun
    from docagent_rl.lab.eval.scoring.run import ScoringSettings, model_scores, score_run, with_costs

    if (judged := model_scores(folder)) is None:
        trajectories = asyncio.run(score_run(folder, ScoringSettings(price=price)))
    else:
        judge, trajectories = judged[0], with_costs(folder, judged[1], price)
        told = f"The trajectories are as {judge} has judged them; these scores are kept."
        Console(stderr=True).print(told, markup=False)
    run = ScoredRun(folder.path.name, trajectories, folder.manifest())
    report([run], ReportSettings(), folder.path, force=False)
