"""The numbers of a run's steps, from the trainer's files, and warnings based on them and on the
index.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from docagent_rl.checkpoints.step_files import step_files
from docagent_rl.lab.viewer.features import number
from docagent_rl.rollout.evidence import STAGES, Stage

_VALIDATED = ("val-core/", "val-aux/")


def read_curves(run_dir: Path) -> dict[str, Any]:
    """Read the numbers in `<run>/metrics`: all names, and for each split its steps, with a number
    or `None` per name and step.

    Training numbers are in `train`, validation numbers in `val`. The file of a step that was also
    validated contains both, which are told apart by verl's names.
    """
    found: dict[str, dict[int, dict[str, float]]] = {"train": {}, "val": {}}
    for own, step, path in step_files(run_dir / "metrics", ".json"):
        found[own].setdefault(step, {})
        for key, value in _read(path).items():
            found[split_of(key, own)].setdefault(step, {})[key] = value
    series = {split: _series(steps) for split, steps in found.items()}
    names = {*series["train"]["values"], *series["val"]["values"]}
    return {"names": sorted(names), **series}


def split_of(name: str, split: str) -> str:
    """Return the split of a number in a file of a split: verl's names tell validations apart."""
    return "val" if name.startswith(_VALIDATED) else split


def _series(steps: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
    """Return the numbers of a split: its steps, and a number or `None` per name and step."""
    ordered = sorted(steps)
    values = {}
    for name in sorted(set().union(*steps.values())):
        values[name] = [number(steps[step].get(name)) for step in ordered]
    return {"steps": ordered, "values": values}


def _read(path: Path) -> Mapping[str, float]:
    """Read a file; return nothing if it is damaged, or was removed after it was listed."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


RECENT = 5
"""Number of last steps that count as recent."""
FEWEST = 6
"""Fewest steps for which a change over the run is assessed."""
EVEN = 0.5
"""Share of groups without any difference in reward above which there is a warning: GRPO learns
nothing from such groups.
"""
TRUNCATED = 0.1
MASKED = 0.05
GUESSED = 0.5
FALL = 0.05
"""Decrease in the share with evidence that causes a warning while the reward increases."""
_SOME_GROUPS = 50

_SHOWN = tuple(stage.value for stage in STAGES[STAGES.index(Stage.SHOWN) :])
_SHARES = {
    "reward": ("total(reward)", "count(reward)"),
    "truncated": ("total(truncated)", "count(*)"),
    "shown": (f"total(stage IN {_SHOWN})", "total(stage != '')"),
    "guessed": ("total(guessed)", "total(outcome = 'right' AND stage != '')"),
}
"""Sum and count of each share in SQL, over trajectories that were played: `shown` over those of
known evidence, `guessed` over those of known evidence that were right.
"""


class Share(NamedTuple):
    """A sum, and the count over which it is taken, which is 0 if nothing is known."""

    total: float
    count: float

    @property
    def mean(self) -> float:
        """The ratio; 0 if nothing is known."""
        return self.total / self.count if self.count else 0.0

    def __str__(self) -> str:
        return f"{self.total:g} of {self.count:g}"


class StepWarning(NamedTuple):
    """A warning, with the query for the trajectories that caused it; empty if there are none."""

    id: str
    severity: str
    """`warn` or `bad`."""
    title: str
    text: str
    steps: tuple[int, int] | None
    filter: str = ""


def step_warnings(base: sqlite3.Connection, split: str) -> list[StepWarning]:
    """Return the warnings about the steps of a split, the severe ones first."""
    rows = base.execute(
        "SELECT DISTINCT step FROM trajectories WHERE split = ? ORDER BY step", (split,)
    )
    steps = [step for (step,) in rows]
    if not steps:
        return []
    found = [*_recent(base, split, steps), *_shortcut(base, split, steps)]
    return sorted(found, key=lambda each: (each.severity != "bad", each.id))


class _Range(NamedTuple):
    """The trajectories of a split in a range of steps."""

    base: sqlite3.Connection
    split: str
    first: int
    last: int

    def rows(self, columns: str, rest: str = "", source: str = "trajectories") -> list[tuple]:
        where = "WHERE split = ? AND step BETWEEN ? AND ?"
        found = self.base.execute(f"SELECT {columns} FROM {source} {where} {rest}", self[1:])
        return list(map(tuple, found))

    def shares(self) -> dict[str, Share]:
        columns = ", ".join(f"{total}, {count}" for total, count in _SHARES.values())
        (numbers,) = self.rows(columns, "AND mask = ''")
        return dict(zip(_SHARES, map(Share, numbers[::2], numbers[1::2]), strict=True))

    def terms(self) -> dict[str, tuple[float, float]]:
        """Return the lowest and highest value of each reward term."""
        source = "trajectories, json_each(terms)"
        found = self.rows("key, min(value), max(value)", "AND mask = '' GROUP BY key", source)
        return {name: (low, high) for name, low, high in found}

    def finding(
        self, name: str, title: str, text: str, link: str = "", *, bad: bool = False
    ) -> StepWarning:
        where = f"split={self.split}&step={self.first}:{self.last}{link}"
        return StepWarning(
            name, "bad" if bad else "warn", title, text, (self.first, self.last), where
        )


def _recent(base: sqlite3.Connection, split: str, steps: Sequence[int]) -> Iterator[StepWarning]:
    recent = _Range(base, split, steps[-RECENT:][0], steps[-1])
    before = _Range(base, split, steps[0], recent.first - 1).terms()
    shares = recent.shares()
    for term, (low, high) in recent.terms().items():
        if low == high and term in before and before[term][0] < before[term][1]:
            title = f"Reward term {term} is {low:.3g} in every trajectory"
            yield recent.finding(
                f"collapse:{term}", title, "It varied before, but now it teaches nothing."
            )
    if split == "train":
        yield from _even_groups(recent)
    if shares["truncated"].mean > TRUNCATED:
        title = f"{shares['truncated']} trajectories are cut off"
        text = (
            "A turn reached its token limit, or the context was full: raise the budgets, or the "
            "policy learns to stop early."
        )
        yield recent.finding("truncated", title, text, "&truncated=1")
    masked = Share(*recent.rows("total(mask != ''), count(*)")[0])
    if masked.mean > MASKED:
        title = f"{masked} trajectories are masked"
        text = "They are left out of the loss: a service failed, or the questions cannot be played."
        yield recent.finding("masked", title, text, "&status=masked", bad=masked.mean > 4 * MASKED)
    if shares["guessed"].mean > GUESSED:
        title = f"{shares['guessed']} right answers come without the evidence"
        text = (
            "Not all gold pages were shown: these are guesses, the judge is lenient, or the "
            "evidence is also elsewhere."
        )
        yield recent.finding("guessed", title, text, "&guessed=1")


def _even_groups(recent: _Range) -> Iterator[StepWarning]:
    of_several = "AND mask = '' GROUP BY step, uid HAVING count(*) > 1"
    groups = recent.rows("uid, min(reward) = max(reward)", of_several)
    even = [uid for uid, same in groups if same]
    if len(groups) >= 4 and len(even) / len(groups) > EVEN:
        yield recent.finding(
            "even_groups",
            f"{len(even)} of {len(groups)} groups have the same reward for all their trajectories",
            "With estimators that compare the trajectories of a group, their advantages are 0: the "
            "questions are too easy or too hard, or the policy always does the same.",
            "".join(f"&uid={quote(uid, safe='')}" for uid in even[-_SOME_GROUPS:]),
            bad=len(even) == len(groups),
        )


def _shortcut(base: sqlite3.Connection, split: str, steps: Sequence[int]) -> Iterator[StepWarning]:
    """Yield a warning if reward increases while evidence decreases, comparing thirds of the run."""
    if len(steps) < FEWEST:
        return
    third = len(steps) // 3
    now = _Range(base, split, steps[-third], steps[-1])
    ends = _Range(base, split, steps[0], steps[third - 1]).shares(), now.shares()
    reward, shown = ([end[name] for end in ends] for name in ("reward", "shown"))
    if not all(share.count for share in (*reward, *shown)):
        return
    if reward[1].mean > reward[0].mean and shown[0].mean - shown[1].mean > FALL:
        title = "Reward rises while evidence falls"
        text = (
            f"Reward went from {reward[0].mean:.3f} to {reward[1].mean:.3f}, while gold pages were "
            f"shown in {shown[0]} trajectories at first and in {shown[1]} now: the policy may be "
            "rewarded without reading the pages."
        )
        yield now.finding("shortcut", title, text, "&guessed=1", bad=True)
