"""An evaluation: a player over questions, in the folder of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from docagent_rl.config import plain
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.runner import Runner, RunSettings
from docagent_rl.lab.eval.agent import Agent
from docagent_rl.lab.eval.questions import digest_of
from docagent_rl.lab.eval.summary import Tally, tally_of
from docagent_rl.records.record import Record
from docagent_rl.rollout.player import Player
from docagent_rl.rollout.trajectory import Trajectory

KIND = "eval"
_KEPT = (
    "docagent",
    "data.max_prompt_length",
    "data.max_response_length",
    "data.apply_chat_template_kwargs",
    "actor_rollout_ref.rollout.val_kwargs",
    "actor_rollout_ref.rollout.dtype",
    "actor_rollout_ref.rollout.max_model_len",
    "actor_rollout_ref.rollout.tensor_model_parallel_size",
)
"""What sessions depend on; the rest of a recipe is the trainer's."""
_TRAINERS = (
    "advantage",
    "kl",
    "loss",
    "critic",
    "watch",
    "keep_best",
    "checkpoint_check",
    "loopback",
    "run_dir",
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is played.

    Args:
        recipe: its name.
        agent: who plays.
        run: the composed configuration.
        records: the questions.
        sessions: of each question.
        seed: of all draws.
        changes: of the recipe (`changes_of`).
    """

    recipe: str
    agent: Agent
    run: DictConfig
    records: Sequence[Record]
    sessions: int
    seed: int
    changes: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self, player: Player) -> dict[str, Any]:
        """What the run is, for `RunFolder.begin`; the names of variables with keys, and never keys."""
        datasets = sorted({record.dataset for record in self.records})
        # a script has no model, and its name stands for one
        named = {} if self.agent.modelled else {"model": self.agent.value}
        return {
            "kind": KIND,
            "recipe": self.recipe,
            "changes": dict(self.changes),
            "agent": self.agent.value,
            "player": {**named, **player.identity},
            "questions": {
                "count": len(self.records),
                "sha256": digest_of(self.records),
                "datasets": datasets,
            },
            "sessions": self.sessions,
            "seed": self.seed,
            "config": kept_config(self.run),
        }


def kept_config(run: DictConfig) -> dict[str, Any]:
    """The composed configuration, as far as sessions depend on it."""
    found: dict[str, Any] = {}
    for key in _KEPT:
        value = OmegaConf.select(run, key)
        found[key] = plain(value) if OmegaConf.is_config(value) else value
    section: Mapping[str, Any] = found["docagent"]
    found["docagent"] = {name: value for name, value in section.items() if name not in _TRAINERS}
    return found


async def evaluate(
    evaluation: Evaluation, player: Player, system: str, folder: RunFolder, settings: RunSettings
) -> Tally:
    """Play what has not been played, with a bar on standard error; counts over the whole run.

    Args:
        evaluation: what is played.
        player: plays; it stays open.
        system: name of what is played.
        folder: of the run; made where it is missing.
        settings: how many at a time.

    Raises:
        UserError: the folder holds another run, or the budget is spent; what was played is kept.
        InfrastructureError: a service is dead; what was played is kept.
    """
    folder.begin(evaluation.manifest(player))
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("reward {task.fields[mean]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        total = len(evaluation.records) * settings.sessions
        task, heard = bar.add_task(evaluation.agent.value, total=total, mean=0.0), Tally()

        def told(trajectory: Trajectory) -> None:
            heard.add(trajectory)
            bar.update(task, advance=1, mean=heard.mean)

        await Runner(player, system, folder, settings, told).run(evaluation.records)
    return tally_of(folder.sessions())
