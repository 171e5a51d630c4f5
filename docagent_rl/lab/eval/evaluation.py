"""Evaluations: a player plays questions, and the trajectories are stored in the folder of a run."""

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from docagent_rl.base.text import shown
from docagent_rl.config import plain_section
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.runner import Runner, RunSettings
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.rollout.recorder import Player
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample

KIND = "eval"
_NAMED = 10
"""Most trajectories that a table of unplayed ones names."""
_ROLLOUT = "actor_rollout_ref.rollout"
_KEPT = (
    "docagent", "data.max_prompt_length", "data.max_response_length",
    "data.apply_chat_template_kwargs",
    f"{_ROLLOUT}.val_kwargs", f"{_ROLLOUT}.dtype", f"{_ROLLOUT}.max_model_len",
    f"{_ROLLOUT}.tensor_model_parallel_size",
)  # fmt: skip
"""Keys on which trajectories depend; the rest of a recipe concerns only the trainer."""
_TRAINERS = (
    "advantage", "kl", "loss", "critic", "watch", "keep_best", "checkpoint_check", "loopback",
    "run_dir",
)  # fmt: skip
"""Keys of the section `docagent` that concern only the trainer."""


def draw_questions(samples: Sequence[Sample], limit: int | None, seed: int) -> list[Sample]:
    """Return `limit` questions drawn at random, or all of them, in the order of the file.

    With the same seed a larger draw includes a smaller one, so that with the same `--cache` only
    the new questions are asked.
    """
    if limit is None or limit >= len(samples):
        return list(samples)
    order = list(range(len(samples)))
    random.Random(seed).shuffle(order)
    return [samples[number] for number in sorted(order[:limit])]


def questions_digest(samples: Sequence[Sample]) -> str:
    """Return the digest of a set of questions."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(sample.to_json().encode() + b"\n")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An agent's questions and settings."""

    recipe: str
    agent: Agent
    run: DictConfig
    samples: Sequence[Sample]
    trajectories: int
    seed: int
    overrides: Sequence[str] = ()
    """Overrides of the recipe, as given to the command."""

    def manifest(self, player: Player) -> dict[str, Any]:
        """Return the manifest for `RunFolder.begin`. For API keys it has the names of the
        environment variables, never the keys.
        """
        # a scripted agent has no model; its name takes the place
        named = {} if self.agent.modelled else {"model": self.agent.value}
        return {
            "kind": KIND,
            "recipe": self.recipe,
            "overrides": list(self.overrides),
            "agent": self.agent.value,
            "player": {**named, **player.identity},
            "questions": {
                "count": len(self.samples),
                "sha256": questions_digest(self.samples),
                "datasets": sorted({sample.dataset for sample in self.samples}),
            },
            "trajectories": self.trajectories,
            "seed": self.seed,
            "config": kept_config(self.run),
        }


def kept_config(run: DictConfig) -> dict[str, Any]:
    """Return the part of the composed configuration that trajectories depend on."""
    values = {key: OmegaConf.select(run, key) for key in _KEPT}
    found = {
        key: plain_section(value) if OmegaConf.is_config(value) else value
        for key, value in values.items()
    }
    section = found["docagent"].items()
    return found | {"docagent": {name: value for name, value in section if name not in _TRAINERS}}


async def play_run(
    manifest: Mapping[str, Any],
    player: Player,
    system: str,
    folder: RunFolder,
    samples: Sequence[Sample],
    settings: RunSettings,
) -> None:
    """Play what is not in the folder yet, with a progress bar on standard error.

    `player` stays open.

    Raises:
        UserError: the folder contains another run, or the budget is spent; finished trajectories
            are kept.
        InfrastructureError: a service is down; finished trajectories are kept.
    """
    folder.begin(manifest)
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(manifest["kind"], total=len(samples) * settings.trajectories)
        await Runner(player, system, folder, settings, lambda _: bar.advance(task)).run(samples)


def unplayed_table(masked: Sequence[Trajectory], consequence: str = "count as wrong") -> Table:
    """Return a table of the trajectories that could not be played, with the reasons.

    `consequence` is the verb phrase that ends the title.
    """
    ends = Counter(trajectory.end for trajectory in masked)
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(ends.items()))
    title = f"{len(masked)} trajectories could not be played and {consequence} ({counts})"
    table = Table("question", "reason", title=shown(title))
    for trajectory in masked[:_NAMED]:
        table.add_row(shown(trajectory.uid), shown(trajectory.error or trajectory.end))
    if (more := len(masked) - _NAMED) > 0:
        table.add_row("", f"and {more} more")
    return table
