"""Measure the floors and the ceiling of a task: scores without its pages, and with the answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
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
    played = script_trajectories(task, setting, processor_of(model), samples)
    found = {
        QUESTION_ONLY: sampled(_alone(unit, paths), model, samples, trajectories=1, seed=unit.seed),
        RANDOM: asyncio.run(_by_chance(setting.config, samples, unit.seed)),
        ORACLE: [trajectory.trajectory for trajectory in played],
    }
    numbers: dict[str, Any] = {
        name: _summary(Scores.of(trajectories)) for name, trajectories in found.items()
    }
    numbers[COMMONEST] = {"accuracy": _commonest(paths, [sample.answers[0] for sample in samples])}
    return numbers


def _alone(unit: Unit, paths: ProofPaths) -> Setting:
    task = unit.task
    run = composed_recipe(task.recipe, base_overrides(task, paths, Path(paths.folder / "unused")))
    configure_agent(run, Agent.QUESTION_ONLY)
    return Setting.of(run)


async def _by_chance(config: DocAgentConfig, samples: list, seed: int) -> list[Trajectory]:
    player = ChancePlayer(EnvResources(config, running=False), seed=seed)
    return [await player.play(sample, 0) for sample in samples]


def _commonest(paths: ProofPaths, wanted: list[str]) -> float:
    counts = Counter(sample.answers[0] for sample in read_parquet(paths.task.data(Part.TRAIN)))
    ((answer, _),) = counts.most_common(1)
    return sum(each == answer for each in wanted) / len(wanted)


def _summary(scores: Scores) -> dict[str, float]:
    """Return the means of scores."""
    rewards = asdict(scores)["reward"]
    return {"accuracy": scores.accuracy, "reward": round(sum(rewards) / len(rewards), 4)}
