"""`docagent-rl eval` and `docagent-rl probe`: play questions and score the answers."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.console import Console

from docagent_rl.base.outputs import Force, write_outputs, written_before
from docagent_rl.base.seals import Seal
from docagent_rl.commands.asking import resumable, within_budget
from docagent_rl.commands.options import (
    AtATime,
    Limit,
    OutFolder,
    Overrides,
    Playing,
    Questions,
    Recipe,
    Trajectories,
    model_options,
    option,
)
from docagent_rl.commands.playing import (
    check_model,
    given_temperature,
    keep_replies,
    open_player,
    questions_to_play,
    trajectories_at_a_time,
)
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.eval.choices import Agent, ProbeCondition

if TYPE_CHECKING:
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.eval.evaluation import Evaluation
    from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory
    from docagent_rl.training.engine.player import EnginePlayer

PAGE = "probe.md"
DATA = "probe.json"


@model_options("model")
def eval_command(
    recipe: Recipe,
    overrides: Overrides = None,
    *,
    data: Questions,
    out: OutFolder,
    agent: Playing = Agent.SYSTEM,
    trajectories: Trajectories = 1,
    limit: Limit = None,
    seed: int = option(0, "Seed for drawing questions and for sampling."),
    at_a_time: AtATime = None,
    model: ModelConfig,
) -> None:
    """Let a system or a baseline answer questions, record every trajectory, and score them.

    With --base-url, --model names a model behind an OpenAI-compatible endpoint. Without, it is a
    folder of weights or a checkpoint of a run (global_step_N, or the run's folder for the latest),
    which vLLM runs in this process. `docagent-rl view OUT` shows the trajectories, and
    `docagent-rl report OUT` scores them with a judge. See docs/evaluation.md.

    Example: docagent-rl eval vrag_rl_qwen2_5_vl_7b --data mmlb.jsonl --out runs/e1 --model
    runs/x/checkpoints
    """
    check_model(agent, model, overrides or ())
    questions = questions_to_play(data)

    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.eval.evaluation import Evaluation, draw_questions, unplayed_table
    from docagent_rl.lab.eval.play_config import check_play, play_config

    samples = draw_questions(questions, limit, seed)
    temperature = given_temperature(model)
    run = play_config(recipe, agent, overrides or (), temperature=temperature)
    check_play(keep_replies(run, model, out)[0], samples)
    evaluation = Evaluation(recipe, agent, run, samples, trajectories, seed, overrides or ())
    with resumable(), within_budget(model):
        asyncio.run(_play({out: evaluation}, model, out, at_a_time))
    if masked := [trajectory for trajectory in RunFolder(out).trajectories() if trajectory.masked]:
        Console().print(unplayed_table(masked))
    _report(RunFolder(out))
    Console(stderr=True).print(
        f"{out}: run.json, trajectories.jsonl; docagent-rl view {out}", markup=False
    )


@model_options("model")
def probe_command(
    recipe: Recipe,
    overrides: Overrides = None,
    *,
    data: Questions,
    out: Path = option(..., "Folder of the runs; the same command resumes them."),
    condition: list[ProbeCondition] | None = option(
        None, "Condition, as listed above; may be repeated; default: all."
    ),
    agent: Playing = Agent.SYSTEM,
    trajectories: Trajectories = 1,
    limit: Limit = None,
    seed: int = option(0, "Seed for drawing questions, for sampling and for exchanging pages."),
    at_a_time: AtATime = None,
    force: Force = False,
    model: ModelConfig,
) -> None:
    """Play questions with pages blanked, exchanged or without evidence, and compare the scores.

    Searches still run over the original documents; only the pages shown to the agent change: as_is,
    blank (white, no text), text_layer (white, with text), no_evidence (white where evidence is),
    shuffled (another document's pages). An agent that reads pages then scores less; one that
    guesses does not. --model works as in `docagent-rl eval`. Every condition leaves its own run in
    OUT.

    Example: docagent-rl probe vrag_rl_qwen2_5_vl_7b --data mmlb.jsonl --out runs/probe --model
    runs/x
    """
    check_model(agent, model, overrides or ())
    questions = questions_to_play(data)

    from docagent_rl.documents.store import DocumentStore
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.eval.evaluation import Evaluation, draw_questions
    from docagent_rl.lab.eval.play_config import check_play, play_config
    from docagent_rl.lab.eval.probe import shown_store
    from docagent_rl.lab.eval.scoring.run import ScoringSettings, score_run

    samples = draw_questions(questions, limit, seed)
    temperature = given_temperature(model)
    run = play_config(recipe, agent, overrides or (), temperature=temperature)
    store = DocumentStore(check_play(run, samples).store)
    evaluations: dict[Path, Evaluation] = {}
    of_run = (samples, trajectories, seed, overrides or ())
    for each in dict.fromkeys((ProbeCondition.AS_IS, *(condition or ProbeCondition))):
        path = shown_store(each, store, samples, out / "stores", seed=seed)
        changed = copy.deepcopy(run)
        changed.docagent.shown_store = None if path is None else str(path.resolve())
        evaluations[out / each.value] = Evaluation(recipe, agent, changed, *of_run)

    async def play_and_score() -> dict[ProbeCondition, list[ScoredTrajectory]]:
        await _play(evaluations, model, out, at_a_time, announce=True)
        scores = {path: await score_run(RunFolder(path), ScoringSettings()) for path in evaluations}
        return {ProbeCondition(path.name): scored for path, scored in scores.items()}

    with resumable(), within_budget(model):
        scored = asyncio.run(play_and_score())
    _report_probe(scored, out, seed, force=force)


async def _play(
    evaluations: Mapping[Path, Evaluation],
    model: ModelConfig,
    out: Path,
    at_a_time: int | None,
    *,
    announce: bool = False,
) -> None:
    """Play evaluations of one agent, each into its folder; replies are cached in `out`."""
    from docagent_rl.config import DocAgentConfig, plain_section
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.agents.runner import RunSettings
    from docagent_rl.lab.eval.evaluation import play_run
    from docagent_rl.systems import get_system

    player = None
    async with AsyncExitStack() as opened:
        for path, each in evaluations.items():
            playing, caching = keep_replies(each.run, model, out)
            parsed = DocAgentConfig.parse(plain_section(playing.docagent))
            if player is not None and each.agent.modelled and not model.base_url:
                # keep the engine, which takes a minute to start
                player = cast("EnginePlayer", player).among(playing)
            else:
                player = await open_player(playing, parsed, each.agent, caching, seed=each.seed)
                opened.push_async_callback(player.close)
            if announce:
                Console(stderr=True).print(f"{path.name}:", highlight=False)
            together = at_a_time or trajectories_at_a_time(model, each.run)
            settings = RunSettings(each.trajectories, together, parsed.rollout.trajectory_attempts)
            system = get_system(parsed.system).name
            await play_run(
                each.manifest(player), player, system, RunFolder(path), each.samples, settings
            )


def _report(folder: RunFolder) -> None:
    """Print the benchmark's numbers; `docagent-rl report` computes them with other judges."""
    from docagent_rl.commands.report import report
    from docagent_rl.lab.eval.report.benchmark import ReportSettings
    from docagent_rl.lab.eval.report.runs import ScoredRun
    from docagent_rl.lab.eval.scoring.run import ScoringSettings, score_run

    trajectories = asyncio.run(score_run(folder, ScoringSettings()))
    run = ScoredRun(folder.path.name, trajectories, folder.manifest())
    report([run], ReportSettings(), folder.path, brief=True, force=False)


def _report_probe(
    scored: dict[ProbeCondition, list[ScoredTrajectory]], out: Path, seed: int, *, force: bool
) -> None:
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.eval.probe import OURS, compare_conditions, probe_json, probe_tables
    from docagent_rl.lab.eval.report.grid import rendered, tables_markdown

    found = compare_conditions(scored, seed=seed)
    grids = probe_tables(found)
    for grid in grids:
        Console().print(rendered(grid))
    if not grids:
        Console().print(
            "No question has a right answer to compare with, so there are no scores to compare."
        )
    data = out / DATA
    earlier = written_before(data, OURS) is not None
    contents = {out / PAGE: tables_markdown(grids), data: probe_json(found)}
    seal = Seal(out)
    with seal.writing(*contents):
        write_outputs(contents, force=force or earlier)
    seal.complete(RunFolder(out / condition.value).manifest_file for condition in scored)
    seal.compact()
    where = f"{out}: {PAGE}, {DATA}, and a run for every condition (docagent-rl view)"
    Console(stderr=True).print(where, markup=False)
