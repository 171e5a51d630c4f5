"""Measure the floors and the ceiling of a task: scores without its pages, and with the answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.config import DocAgentConfig
from docagent_rl.lab.agents.scripted import ChancePlayer
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.lab.eval.play_config import configure_agent
from docagent_rl.rollout.env_resources import EnvResources
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.parquet import read_parquet
from proof.plan import base_overrides
from proof.scores import Scores
from proof.tasks.base import Part
from proof.unit import ProofPaths, Unit
from proof.warm_start import processor_of, sampled, script_trajectories, setting_of
from trial import Setting

QUESTION_ONLY = "question_only"
COMMONEST = "commonest"
RANDOM = "random"
ORACLE = "oracle"


def measure_floors(unit: Unit, paths: ProofPaths) -> dict[str, Any]:
    """Score simple agents on the held-out questions.

    Args:
        unit: the unit whose warm start answers without pages.
        paths: the paths of the system; workspace and warm start must have been made.

    Returns:
        the scores of each agent by its name. `question_only` is the warm start, which sees no page
        (the baseline of the evaluation harness). `commonest` gives the most frequent answer of the
        training documents. `random` takes random legal actions. `oracle` is the script of the task,
        in the real environment.
    """
    task = unit.task
    samples = read_parquet(paths.task.data(Part.HELD_OUT))
    model = paths.warm_start(unit)
    setting = setting_of(task, paths)

    without_pages = _question_only_setting(unit, paths)
    scripted = script_trajectories(task, setting, processor_of(model), samples)
    trajectories_of = {
        QUESTION_ONLY: sampled(without_pages, model, samples, trajectories=1, seed=unit.seed),
        RANDOM: asyncio.run(_random_trajectories(setting.config, samples, unit.seed)),
        ORACLE: [each.trajectory for each in scripted],
    }
    floors: dict[str, Any] = {
        name: _summary(Scores.of(trajectories)) for name, trajectories in trajectories_of.items()
    }
    right_answers = [sample.answers[0] for sample in samples]
    floors[COMMONEST] = {"accuracy": _accuracy_of_commonest(paths, right_answers)}
    return floors


def _question_only_setting(unit: Unit, paths: ProofPaths) -> Setting:
    """Return the recipe's settings for an agent that sees the question alone."""
    task = unit.task
    run = composed_recipe(task.recipe, base_overrides(task, paths, Path(paths.folder / "unused")))
    configure_agent(run, Agent.QUESTION_ONLY)
    return Setting.of(run)


async def _random_trajectories(
    config: DocAgentConfig, samples: list, seed: int
) -> list[Trajectory]:
    player = ChancePlayer(EnvResources(config, running=False), seed=seed)
    return [await player.play(sample, 0) for sample in samples]


def _accuracy_of_commonest(paths: ProofPaths, right_answers: list[str]) -> float:
    """Return the share of questions that the most frequent answer of training answers."""
    training = read_parquet(paths.task.data(Part.TRAIN))
    counts = Counter(sample.answers[0] for sample in training)
    ((commonest, _count),) = counts.most_common(1)
    return right_answers.count(commonest) / len(right_answers)


def _summary(scores: Scores) -> dict[str, float]:
    """Return the means of scores."""
    mean_reward = sum(scores.reward) / len(scores.reward)
    return {"accuracy": scores.accuracy, "reward": round(mean_reward, 4)}
