"""The numbers of a run's steps, out of the trainer's files and of the index, and warnings made of them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from urllib.parse import quote

from docagent_rl.lab.viewer.features import number
from docagent_rl.rollout.evidence import STAGES, Stage

_FILE = re.compile(r"(val-)?(\d{1,12})\.json")
_VALIDATED = ("val-core/", "val-aux/")

Curves = dict[str, dict[int, dict[str, float]]]
"""Numbers by split, step and name."""


def read_curves(run_dir: Path) -> Curves:
    """Read the numbers of `<run>/metrics`: those of training as `train`, those of validations as `val`.

    The file of a step that was validated as well holds both: verl's names tell them apart.
    """
    found: Curves = {"train": {}, "val": {}}
    for path in (run_dir / "metrics").glob("*.json"):
        name = _FILE.fullmatch(path.name)
        if name is None:
            continue
        try:
            status = path.stat()
        except OSError:  # set aside since it was listed
            continue
        own, step = "val" if name[1] else "train", int(name[2])
        found[own].setdefault(step, {})
        for key, value in _read(path, status.st_mtime_ns, status.st_size).items():
            split = "val" if key.startswith(_VALIDATED) else own
            found[split].setdefault(step, {})[key] = value
    return found


@lru_cache(maxsize=100_000)
def _read(path: Path, changed: int, size: int) -> Mapping[str, float]:
    """Read a file as it was at a time; a damaged one holds nothing."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def described(curves: Curves) -> dict[str, Any]:
    """Return curves for JSON: all names, and of each split its steps with a number or `None` each."""
    found: dict[str, Any] = {}
    for split, steps in curves.items():
        order, names = sorted(steps), sorted({name for numbers in steps.values() for name in numbers})
        values = {name: [number(steps[step].get(name)) for step in order] for name in names}
        found[split] = {"steps": order, "values": values}
    return {"names": sorted({name for each in found.values() for name in each["values"]}), **found}


_SHOWN = tuple(stage.value for stage in STAGES[STAGES.index(Stage.SHOWN) :])
_SHARES = {
    "reward": ("total(reward)", "count(reward)"),
    "invalid": ("sum(invalid)", "sum(turns)"),
    "truncated": ("sum(truncated)", "count(*)"),
    "drift": ("total(drift)", "count(drift)"),
    "shown": (f"sum(stage IN {_SHOWN})", "sum(stage != '')"),
    "guessed": ("sum(guessed)", "coalesce(sum(\"right\" AND stage != ''), 0)"),
}
"""Sum and count of each share in SQL."""
_PLAYED = "FROM trajectories WHERE split = ? AND mask = ''"


class Share(NamedTuple):
    """A sum and the count it is over, which is 0 where nothing is known."""

    total: float = 0
    count: int = 0

    @property
    def mean(self) -> float:
        """The ratio."""
        return self.total / self.count

    def __str__(self) -> str:
        return f"{self.total:g} of {self.count}"


@dataclass(slots=True)
class StepNumbers:
    """One step; trajectories that are masked count in `masked` and `trajectories` alone."""

    step: int
    trajectories: int = 0
    masked: int = 0
    shares: dict[str, Share] = field(default_factory=dict)
    """`reward`, `drift` (mean absolute difference of log-probs, server and trainer) and `truncated` are over
    trajectories, `invalid` over turns, `shown` over trajectories of known evidence, and `guessed` over those
    of them that were right."""
    terms: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest value of each reward term."""
    groups: int = 0
    """Groups of several trajectories."""
    even: list[str] = field(default_factory=list)
    """Uids of those in which all rewards are equal."""


def pooled(steps: Iterable[StepNumbers], name: str) -> Share:
    """Return a share over several steps, as if they were one: none weighs more than it has."""
    found = [step.shares.get(name, Share()) for step in steps]
    return Share(sum(each.total for each in found), sum(each.count for each in found))


def step_numbers(base: sqlite3.Connection, split: str) -> list[StepNumbers]:
    """Return the steps of a split, in order."""
    found = {
        step: StepNumbers(step, trajectories, masked)
        for step, trajectories, masked in base.execute(
            "SELECT step, count(*), sum(mask != '') FROM trajectories WHERE split = ? "
            "GROUP BY step ORDER BY step",
            (split,),
        )
    }
    columns = ", ".join(f"{total}, {count}" for total, count in _SHARES.values())
    for step, *numbers in base.execute(f"SELECT step, {columns} {_PLAYED} GROUP BY step", (split,)):
        shares = map(Share, numbers[::2], numbers[1::2])
        found[step].shares = dict(zip(_SHARES, shares, strict=True))
    for step, name, low, high in base.execute(
        "SELECT step, name, min(value), max(value) FROM terms JOIN trajectories ON terms.trajectory = id "
        "WHERE split = ? AND mask = '' GROUP BY step, name",
        (split,),
    ):
        found[step].terms[name] = low, high
    for step, uid, low, high in base.execute(
        f"SELECT step, uid, min(reward), max(reward) {_PLAYED} "
        "GROUP BY step, uid HAVING count(*) > 1 ORDER BY step, uid",
        (split,),
    ):
        found[step].groups += 1
        found[step].even += [uid] if low == high else []
    return list(found.values())


RECENT = 5
"""Steps that count as the present."""
FEWEST = 6
"""Steps from which on a change over the run is judged."""
EVEN = 0.5
"""Share of groups without any difference in reward that is too many: GRPO learns nothing from them."""
RISE = 0.1
"""Rise of a share, between the first and the last third of the steps."""
TRUNCATED = 0.1
MASKED = 0.05
DRIFT = 0.05
"""Mean absolute difference of log-probs (nats a token) beyond which ratios are off by 5%."""
GUESSED = 0.5
FALL = 0.05
"""Fall of the share with evidence, while the reward rises."""
ENTROPY = 0.2
"""Share of its value at the beginning."""
_SOME_GROUPS = 50


class Finding(NamedTuple):
    """One warning, with the query of the trajectories behind it; empty where none are."""

    id: str
    severity: str
    """`warn` or `bad`."""
    title: str
    text: str
    steps: tuple[int, int]
    filter: str = ""


def findings(
    steps: Sequence[StepNumbers], split: str, curves: Mapping[str, Sequence[float | None]] | None = None
) -> list[Finding]:
    """Return the warnings over the steps of a split, bad ones first; `curves` are the trainer's numbers."""
    if not steps:
        return []
    found = [*_recent(steps, split), *_trends(steps, split)]
    values = [value for value in (curves or {}).get("actor/entropy", ()) if value is not None]
    if len(values) >= FEWEST:
        third = len(values) // 3
        first, last = fmean(values[:third]), fmean(values[-third:])
        if first > 0 and last < ENTROPY * first:
            title = f"Entropy fell from {first:.3f} to {last:.3f}"
            text = "Trajectories of a group become alike, and there is less to learn from."
            found.append(Finding("entropy", "warn", title, text, (steps[0].step, steps[-1].step)))
    return sorted(found, key=lambda each: (each.severity != "bad", each.id))


def _finding(
    steps: Sequence[StepNumbers], split: str, name: str, title: str, text: str, link: str, *, bad: bool
) -> Finding:
    ends = steps[0].step, steps[-1].step
    where = f"split={split}&step={ends[0]}-{ends[1]}{link}"
    return Finding(name, "bad" if bad else "warn", title, text, ends, where)


def _recent(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    """Yield warnings about the recent steps."""
    recent = steps[-RECENT:]

    def finding(name: str, title: str, text: str, link: str = "", *, bad: bool = False) -> Finding:
        return _finding(recent, split, name, title, text, link, bad=bad)

    varied = {
        term for each in steps[: -len(recent)] for term, (low, high) in each.terms.items() if low < high
    }
    for term in sorted(varied):
        spans = [step.terms[term] for step in recent if term in step.terms]
        level = {value for span in spans for value in span}
        if len(spans) == len(recent) and len(level) == 1:
            title = f"Reward term {term} is {level.pop():.3g} in every trajectory"
            yield finding(f"collapse:{term}", title, "It varied before and teaches nothing now.")
    groups, even = sum(step.groups for step in recent), [uid for step in recent for uid in step.even]
    if split == "train" and groups >= 4 and len(even) / groups > EVEN:
        yield finding(
            "even_groups",
            f"{len(even)} of {groups} groups have one reward for all their trajectories",
            "Their advantages are 0 under estimators that compare trajectories of a group: questions that "
            "are too easy, too hard, or a policy that always does the same.",
            "".join(f"&uid={quote(uid, safe='')}" for uid in even[-_SOME_GROUPS:]),
            bad=len(even) == groups,
        )
    truncated = pooled(recent, "truncated")
    if truncated.count and truncated.mean > TRUNCATED:
        yield finding(
            "truncated",
            f"{truncated} trajectories are cut",
            "A turn hit its token cap, or the context was full: raise the budgets, or what is learnt is to "
            "stop early.",
            "&truncated=1",
        )
    masked = Share(sum(step.masked for step in recent), sum(step.trajectories for step in recent))
    if masked.count and masked.mean > MASKED:
        yield finding(
            "masked",
            f"{masked} trajectories are masked",
            "They are left out of the loss: a service fails, or questions cannot be played.",
            "&status=masked",
            bad=masked.mean > 4 * MASKED,
        )
    drift = pooled(recent, "drift")
    if drift.count and drift.mean > DRIFT:
        yield finding(
            "drift",
            f"Server and trainer differ by {drift.mean:.3f} nats a token",
            "Their log-probs of the sampled tokens should agree: other weights, other images, other "
            "precision, or trajectories that are too old.",
            f"&drift={DRIFT}:",
            bad=True,
        )
    guessed = pooled(recent, "guessed")
    if guessed.count and guessed.mean > GUESSED:
        yield finding(
            "guessed",
            f"{guessed} right answers come without the evidence",
            "Not every gold page was shown: guesses, a lenient judge, or evidence that stands elsewhere too.",
            "&guessed=1",
        )


def _trends(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    """Yield warnings about changes from the first third of the steps to the last."""
    if len(steps) < FEWEST:
        return
    third = len(steps) // 3
    ends = steps[:third], steps[-third:]
    invalid, reward, shown = ([pooled(end, name) for end in ends] for name in ("invalid", "reward", "shown"))
    if all(share.count for share in invalid) and invalid[1].mean - invalid[0].mean > RISE:
        text = f"{invalid[0]} turns at first, {invalid[1]} now."
        yield _finding(ends[1], split, "invalid", "More turns are invalid", text, "&invalid=1:", bad=True)
    if not all(share.count for share in (*reward, *shown)):
        return
    if reward[1].mean > reward[0].mean and shown[0].mean - shown[1].mean > FALL:
        title = "Reward rises while evidence falls"
        text = (
            f"Reward {reward[0].mean:.3f} to {reward[1].mean:.3f}; gold pages shown to {shown[0]} "
            f"trajectories and then to {shown[1]}: the policy may have found a way to be paid without "
            "reading."
        )
        yield _finding(ends[1], split, "shortcut", title, text, "&guessed=1", bad=True)
