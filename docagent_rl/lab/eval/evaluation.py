"""An evaluation: a player over questions, in the folder of a run, and its rewards in a few lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from docagent_rl.base.terminal import shown
from docagent_rl.config import plain
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.agents.runner import Runner, RunSettings
from docagent_rl.lab.eval.agent import Agent
from docagent_rl.lab.eval.questions import digest_of
from docagent_rl.rollout.recorder import Player
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.samples.sample import Sample

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
"""Keys that trajectories depend on; the rest of a recipe is the trainer's."""
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
    """Questions that are played by an agent.

    Args:
        recipe: its name.
        agent: who plays.
        run: the composed configuration.
        samples: the questions.
        trajectories: of each question.
        seed: of all draws.
        changes: of the recipe (`changes_of`).
    """

    recipe: str
    agent: Agent
    run: DictConfig
    samples: Sequence[Sample]
    trajectories: int
    seed: int
    changes: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self, player: Player) -> dict[str, Any]:
        """Return the description for `RunFolder.begin`, with names of variables with keys and never keys."""
        datasets = sorted({sample.dataset for sample in self.samples})
        # a script has no model, and its name stands for one
        named = {} if self.agent.modelled else {"model": self.agent.value}
        return {
            "kind": KIND,
            "recipe": self.recipe,
            "changes": dict(self.changes),
            "agent": self.agent.value,
            "player": {**named, **player.identity},
            "questions": {
                "count": len(self.samples),
                "sha256": digest_of(self.samples),
                "datasets": datasets,
            },
            "trajectories": self.trajectories,
            "seed": self.seed,
            "config": kept_config(self.run),
        }


def kept_config(run: DictConfig) -> dict[str, Any]:
    """Return the composed configuration, as far as trajectories depend on it."""
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
    console, tally = Console(stderr=True), Tally()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("reward {task.fields[mean]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        total = len(evaluation.samples) * settings.trajectories
        task = bar.add_task(evaluation.agent.value, total=total, mean=0.0)

        def count(trajectory: Trajectory) -> None:
            tally.add(trajectory)
            bar.update(task, advance=1, mean=tally.mean)

        await Runner(player, system, folder, settings, count).run(evaluation.samples)
    return tally_of(folder.trajectories())


_NAMED = 10


@dataclass(slots=True)
class Tally:
    """Counts over trajectories, one after the other.

    A trajectory that could not be played is wrong: it counts in every mean, as 0.

    Args:
        trajectories: of them all.
        finished: ended by the agent.
        masked: not played, by reason.
        examples: some of those, each a question and why.
        reward: sum over all trajectories.
        terms: sums of the reward's terms.
    """

    trajectories: int = 0
    finished: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str]] = field(default_factory=list)
    reward: float = 0.0
    terms: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, trajectory: Trajectory) -> None:
        """Count a trajectory."""
        self.trajectories += 1
        if trajectory.masked:
            self.masked[trajectory.end] += 1
            self.examples.append((trajectory.uid, trajectory.error or trajectory.end))
            return
        self.finished += trajectory.status == Status.FINISHED.value
        self.reward += trajectory.reward
        for name, value in trajectory.metrics.items():
            if name.startswith("reward/"):
                self.terms[name.removeprefix("reward/")] += value

    @property
    def mean(self) -> float:
        """Reward of a trajectory."""
        return self.reward / self.trajectories if self.trajectories else 0.0


def tally_of(trajectories: Iterable[Trajectory]) -> Tally:
    """Count over a whole run."""
    tally = Tally()
    for trajectory in trajectories:
        tally.add(trajectory)
    return tally


def summary_table(tally: Tally) -> Table:
    """Return a table of means over all trajectories."""
    table = Table("", "mean", title=f"{tally.trajectories} trajectories")
    rows = {"reward": tally.mean, "finished": tally.finished / max(1, tally.trajectories)}
    rows |= {name: value / max(1, tally.trajectories) for name, value in sorted(tally.terms.items())}
    for name, value in rows.items():
        table.add_row(shown(name), f"{value:.4f}")
    return table


def unplayed_table(tally: Tally, they: str = "count as wrong") -> Table | None:
    """Return a table of trajectories that could not be played, and why; `None` where all could.

    Args:
        tally: of the run.
        they: what becomes of them.
    """
    if not tally.masked:
        return None
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.masked.items()))
    title = f"{sum(tally.masked.values())} trajectories could not be played and {they} ({counts})"
    table = Table("question", "why", title=shown(title))
    for uid, why in tally.examples[:_NAMED]:
        table.add_row(shown(uid), shown(why))
    if (more := len(tally.examples) - _NAMED) > 0:
        table.add_row("", f"and {more} more")
    return table
