"""What an experienced eye would notice in a run, each with the trajectories behind it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple
from urllib.parse import quote

from docagent_rl.lab.viewer.steps import Share, StepNumbers, pooled

RECENT = 5
"""Steps that count as the present."""
FEWEST = 6
"""Steps from which on a change over the run is judged."""
EVEN = 0.5
"""Share of groups without any difference in reward that is too many: GRPO learns nothing from them."""
RISE = 0.1
"""Of a share, between the first and the last third of the steps."""
TRUNCATED = 0.1
MASKED = 0.05
DRIFT = 0.05
"""Mean absolute difference of log-probs (nats a token) beyond which ratios are off by 5%."""
GUESSED = 0.5
FALL = 0.05
"""Of the share with evidence, while the reward rises."""
ENTROPY = 0.2
"""Of its value at the beginning."""
_SOME_GROUPS = 50


class Severity(StrEnum):
    """How much a warning matters."""

    WARN = "warn"
    BAD = "bad"


class Finding(NamedTuple):
    """One warning.

    Args:
        text: the numbers, and what they may mean.
        steps: first and last.
        filter: query of the trajectories behind it; empty where none are.
    """

    id: str
    severity: Severity
    title: str
    text: str
    steps: tuple[int, int]
    filter: str = ""


def findings(
    steps: Sequence[StepNumbers], split: str, curves: Mapping[str, Sequence[float | None]] | None = None
) -> list[Finding]:
    """Return the warnings over the steps of a split, bad ones first; `curves`: the trainer's numbers."""
    if not steps:
        return []
    view = _View(steps, split)
    checks = (_collapse, _even_groups, _invalid, _truncated, _masked, _drift, _shortcut, _guessed)
    found = [finding for check in checks for finding in check(view)]
    found += _entropy(view, (curves or {}).get("actor/entropy", ()))
    return sorted(found, key=lambda each: (each.severity is not Severity.BAD, each.id))


class _View:
    """The steps of a split with their ends: the recent ones, the first third and the last."""

    def __init__(self, steps: Sequence[StepNumbers], split: str) -> None:
        third = len(steps) // 3
        self.steps, self.split, self.recent = steps, split, steps[-RECENT:]
        self.first, self.last = steps[:third], steps[-max(1, third) :]

    def change(self, name: str) -> tuple[Share, Share] | None:
        """Return a share of the first and of the last third; `None` where they do not tell."""
        first, last = pooled(self.first, name), pooled(self.last, name)
        return (first, last) if len(self.steps) >= FEWEST and first.count and last.count else None

    def recently(self, name: str, title: str, text: str, link: str = "", *, bad: bool = False) -> Finding:
        """Make a warning about the recent steps."""
        return self._finding(self.recent, name, title, text, link, bad=bad)

    def lately(self, name: str, title: str, text: str, link: str) -> Finding:
        """Make a bad warning about the last third of the steps."""
        return self._finding(self.last, name, title, text, link, bad=True)

    def _finding(
        self, steps: Sequence[StepNumbers], name: str, title: str, text: str, link: str, *, bad: bool
    ) -> Finding:
        first, last = steps[0].step, steps[-1].step
        where = f"split={self.split}&step={first}-{last}{link}"
        return Finding(name, Severity.BAD if bad else Severity.WARN, title, text, (first, last), where)


def _collapse(view: _View) -> Iterator[Finding]:
    before = view.steps[: -len(view.recent)]
    varied = {name for step in before for name, (low, high) in step.terms.items() if low < high}
    for name in sorted(varied):
        spans = [step.terms[name] for step in view.recent if name in step.terms]
        level = {value for span in spans for value in span}
        if len(spans) == len(view.recent) and len(level) == 1:
            title = f"Reward term {name} is {level.pop():.3g} in every trajectory"
            yield view.recently(f"collapse:{name}", title, "It varied before and teaches nothing now.")


def _even_groups(view: _View) -> Iterator[Finding]:
    groups = sum(step.groups for step in view.recent)
    even = [uid for step in view.recent for uid in step.even]
    if view.split == "train" and groups >= 4 and len(even) / groups > EVEN:
        yield view.recently(
            "even_groups",
            f"{len(even)} of {groups} groups have one reward for all their trajectories",
            "Their advantages are 0 under estimators that compare trajectories of a group: "
            "questions that are "
            "too easy, too hard, or a policy that always does the same.",
            "".join(f"&uid={quote(uid, safe='')}" for uid in even[-_SOME_GROUPS:]),
            bad=len(even) == groups,
        )


def _invalid(view: _View) -> Iterator[Finding]:
    change = view.change("invalid")
    if change is not None and change[1].mean - change[0].mean > RISE:
        text = f"{change[0]} turns at first, {change[1]} now."
        yield view.lately("invalid", "More turns are invalid", text, "&invalid=1:")


def _truncated(view: _View) -> Iterator[Finding]:
    share = pooled(view.recent, "truncated")
    if share.count and share.mean > TRUNCATED:
        yield view.recently(
            "truncated",
            f"{share} trajectories are cut",
            "A turn hit its token cap, or the context was full: raise the budgets, or what is learnt is to "
            "stop early.",
            "&truncated=1",
        )


def _masked(view: _View) -> Iterator[Finding]:
    share = Share(sum(step.masked for step in view.recent), sum(step.trajectories for step in view.recent))
    if share.count and share.mean > MASKED:
        yield view.recently(
            "masked",
            f"{share.total} of {share.count} trajectories are masked",
            "They are left out of the loss: a service fails, or questions cannot be played.",
            "&status=masked",
            bad=share.mean > 4 * MASKED,
        )


def _drift(view: _View) -> Iterator[Finding]:
    level = pooled(view.recent, "drift")
    if level.count and level.mean > DRIFT:
        yield view.recently(
            "drift",
            f"Server and trainer differ by {level.mean:.3f} nats a token",
            "Their log-probs of the sampled tokens should agree: other weights, other images, other "
            "precision, or trajectories that are too old.",
            f"&drift={DRIFT}:",
            bad=True,
        )


def _shortcut(view: _View) -> Iterator[Finding]:
    reward, shown = view.change("reward"), view.change("shown")
    if reward is None or shown is None:
        return
    if reward[1].mean > reward[0].mean and shown[0].mean - shown[1].mean > FALL:
        yield view.lately(
            "shortcut",
            "Reward rises while evidence falls",
            f"Reward {reward[0].mean:.3f} to {reward[1].mean:.3f}; gold pages shown to {shown[0]} "
            "trajectories "
            f"and then to {shown[1]}: the policy may have found a way to be paid without reading.",
            "&guessed=1",
        )


def _guessed(view: _View) -> Iterator[Finding]:
    share = pooled(view.recent, "guessed")
    if share.count and share.mean > GUESSED:
        yield view.recently(
            "guessed",
            f"{share} right answers come without the evidence",
            "Not every gold page was shown: guesses, a lenient judge, or evidence that stands elsewhere too.",
            "&guessed=1",
        )


def _entropy(view: _View, curve: Sequence[float | None]) -> Iterator[Finding]:
    values = [value for value in curve if value is not None]
    if len(values) < FEWEST:
        return
    third = len(values) // 3
    first, last = fmean(values[:third]), fmean(values[-third:])
    if first > 0 and last < ENTROPY * first:
        title = f"Entropy fell from {first:.3f} to {last:.3f}"
        text = "Trajectories of a group become alike, and there is less to learn from."
        ends = view.steps[0].step, view.steps[-1].step
        yield Finding("entropy", Severity.WARN, title, text, ends)
