"""`docagent-rl collect`: collect trajectories for supervised fine-tuning."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import shown
from docagent_rl.commands.asking import resumable, within_budget
from docagent_rl.commands.options import (
    AtATime,
    Limit,
    OutFolder,
    Overrides,
    Questions,
    Recipe,
    model_options,
    option,
)
from docagent_rl.commands.playing import (
    chat_limits,
    keep_replies,
    open_resources,
    questions_to_play,
)
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.collect.rules import AgentKind

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.config import DocAgentConfig
    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.collect.config import CollectConfig
    from docagent_rl.rollout.recorder import Player

_AT_A_TIME = 8


@model_options("grounder", prefix="grounder-", second=True)
@model_options("teacher")
def collect_command(
    recipe: Recipe,
    overrides: Overrides = None,
    *,
    data: Questions,
    out: OutFolder,
    player: AgentKind = option(AgentKind.ENDPOINT, "Agent that plays; see docs/collect.md."),
    preset: str | None = option(
        None,
        "Filters and settings to collect with: vrag_rl, unidoc_rl, doc_v_star, mm_doc_r1, or a "
        ".yaml file of your own.",
    ),
    trajectories: int | None = option(
        None, "Trajectories per question; default: the preset's.", min=1
    ),
    limit: Limit = None,
    seed: int = option(0, "Seed for drawing questions, for scripted agents and for sampling."),
    at_a_time: AtATime = None,
    failed_by: Path | None = option(
        None,
        "Run of another model: keep only questions that it fails. SlideVQA questions are always "
        "kept.",
    ),
    teacher: ModelConfig,
    grounder: ModelConfig,
) -> None:
    """Have a teacher or a script play a system, and keep the trajectories that pass the filters.

    OUT gets trajectories.jsonl (every trajectory), kept.jsonl (those that pass), funnel.json,
    verdicts.jsonl and replies/ (cached replies). The same command resumes an interrupted
    collection. A complete collection is only filtered again, so you can change the filters without
    playing again. See docs/collect.md.

    Example: docagent-rl collect vrag_rl_qwen2_5_vl_7b --data train.parquet --out runs/c1 --player
    detours
    """
    _check_options(player, teacher, grounder)
    questions = questions_to_play(data)

    from docagent_rl.lab.agents.run_folder import RunFolder
    from docagent_rl.lab.agents.runner import RunSettings
    from docagent_rl.lab.agents.scripted import NO_DETOURS, ScriptPlayer
    from docagent_rl.lab.collect.collection import check_runs, is_played, manifest_of
    from docagent_rl.lab.collect.config import CollectConfig
    from docagent_rl.lab.collect.filters import Failed
    from docagent_rl.lab.eval.choices import Agent
    from docagent_rl.lab.eval.evaluation import draw_questions, play_run
    from docagent_rl.lab.eval.play_config import check_play, play_config
    from docagent_rl.systems import get_system

    config = CollectConfig.load(preset)
    if failed_by is not None:
        config = config.model_copy(update={"filters": (*config.filters, Failed(run=failed_by))})
    samples = draw_questions(questions, limit, seed)
    run = play_config(recipe, Agent.SYSTEM, overrides or ())
    run, teacher = keep_replies(run, teacher, out)
    parsed = check_play(run, samples)
    config.check_system(get_system(parsed.system).name)
    check_runs(config.filters)
    together = at_a_time or (teacher.concurrency if player is AgentKind.ENDPOINT else _AT_A_TIME)
    settings = RunSettings(
        trajectories or config.trajectories, together, parsed.rollout.trajectory_attempts
    )
    folder = RunFolder(out)

    async def collect() -> None:
        if player is AgentKind.ENDPOINT:
            check = not is_played(folder, samples, settings.trajectories)
            playing = await _teacher(run, parsed, config, teacher, grounder, seed, check=check)
        else:
            detours = config.detours if player is AgentKind.DETOURS else NO_DETOURS
            playing = ScriptPlayer(
                open_resources(parsed, validate=False), detours, seed, validate=False
            )
        try:
            manifest = manifest_of(recipe, playing, samples, settings.trajectories)
            await play_run(
                manifest, playing, get_system(parsed.system).name, folder, samples, settings
            )
        finally:
            await playing.close()

    with resumable(), within_budget(teacher, {"grounder": grounder}):
        asyncio.run(collect())
        _report(folder, config, parsed)


def _check_options(player: AgentKind, teacher: ModelConfig, grounder: ModelConfig) -> None:
    if player is AgentKind.ENDPOINT:
        teacher.require("--player endpoint")
    elif teacher.model or teacher.base_url:
        raise UserError(f"--player {player.value} uses no model: leave out --model and --base-url")
    elif grounder.named:
        raise UserError(f"--player {player.value} draws its own boxes: leave out --grounder-model")


async def _teacher(
    run: DictConfig,
    parsed: DocAgentConfig,
    config: CollectConfig,
    teacher: ModelConfig,
    grounder: ModelConfig,
    seed: int,
    *,
    check: bool,
) -> Player:
    """Open the teacher behind its endpoint; with `check`, make sure first that it replies."""
    from docagent_rl.endpoints.remote_model import open_model
    from docagent_rl.lab.agents.chat import ChatModel
    from docagent_rl.lab.collect.teacher import TeacherPlayer

    if config.temperature is not None and "temperature" not in teacher.model_fields_set:
        teacher = teacher.model_copy(update={"temperature": config.temperature})
    models = [open_model(teacher, "teacher", None)]
    if grounder.named:
        models.append(open_model(grounder, "grounder", teacher.cache_dir))
    if check:
        for model in models:
            await model.check()
    writer, *drawing = map(ChatModel, models)
    second = drawing[0] if drawing else None
    limits = chat_limits(run, parsed, seed)
    resources = open_resources(parsed, validate=False)
    return TeacherPlayer(resources, writer, limits, config.teacher, grounder=second, seed=seed)


def _report(folder: RunFolder, config: CollectConfig, parsed: DocAgentConfig) -> None:
    """Filter the trajectories; print how many each filter kept and how many were not played."""
    from docagent_rl.lab.collect.collection import KEPT, filter_run
    from docagent_rl.lab.eval.evaluation import unplayed_table
    from docagent_rl.rewards.judge import make_judge
    from docagent_rl.rollout.trajectory import MaskReason

    console = Console()
    errors = Console(stderr=True)
    # filters use a judge only if the configuration names one
    judge = make_judge(parsed.judge) if parsed.judge.kind is not None else None
    funnel = filter_run(folder, config, judge)
    console.print(funnel.table())
    for warning in funnel.warnings():
        errors.print(shown(warning))
    masked = [trajectory for trajectory in folder.trajectories() if trajectory.masked]
    if masked:
        console.print(unplayed_table(masked, "are left out"))
    if failed := sum(trajectory.end == MaskReason.INFRASTRUCTURE for trajectory in masked):
        errors.print(
            f"{failed} of them because a service failed: run the same command to play them again"
        )
    if not funnel.stages[0].trajectories:
        raise UserError(
            f"{folder.path}: none of its {funnel.trajectories} trajectories could be played"
        )
    errors.print(f"{folder.path / KEPT}; docagent-rl view {folder.path}", markup=False)
