"""What an evaluation came to, in a few lines: rewards, and what could not be played."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.table import Table

from docagent_rl.base.terminal import shown
from docagent_rl.rollout.trajectory import Status, Trajectory

_NAMED = 10


@dataclass(slots=True)
class Tally:
    """Counts over sessions as they are heard.

    A session that could not be played is wrong: it counts in every mean, as 0.

    Args:
        sessions: of them all.
        finished: ended by the agent.
        masked: not played, by reason.
        examples: some of those, each a question and why.
        reward: sum over all sessions.
        terms: sums of the reward's terms.
    """

    sessions: int = 0
    finished: int = 0
    masked: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, str]] = field(default_factory=list)
    reward: float = 0.0
    terms: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, trajectory: Trajectory) -> None:
        """Count a session."""
        self.sessions += 1
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
        """Reward of a session."""
        return self.reward / self.sessions if self.sessions else 0.0


def tally_of(trajectories: Iterable[Trajectory]) -> Tally:
    """Counts over a whole run."""
    tally = Tally()
    for trajectory in trajectories:
        tally.add(trajectory)
    return tally


def summary_table(tally: Tally) -> Table:
    """Means over all sessions."""
    table = Table("", "mean", title=f"{tally.sessions} sessions")
    rows = {"reward": tally.mean, "finished": tally.finished / max(1, tally.sessions)}
    rows |= {name: value / max(1, tally.sessions) for name, value in sorted(tally.terms.items())}
    for name, value in rows.items():
        table.add_row(shown(name), f"{value:.4f}")
    return table


def unplayed_table(tally: Tally, they: str = "count as wrong") -> Table | None:
    """Sessions that could not be played, and why; `None` where all could.

    Args:
        tally: of the run.
        they: what becomes of them.
    """
    if not tally.masked:
        return None
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.masked.items()))
    title = f"{sum(tally.masked.values())} sessions could not be played and {they} ({counts})"
    table = Table("question", "why", title=shown(title))
    for uid, why in tally.examples[:_NAMED]:
        table.add_row(shown(uid), shown(why))
    if (more := len(tally.examples) - _NAMED) > 0:
        table.add_row("", f"and {more} more")
    return table
