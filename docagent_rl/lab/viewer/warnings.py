"""What an experienced eye would notice in a run, each with the sessions behind it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import Any
from urllib.parse import quote

from docagent_rl.lab.viewer.aggregates import Share, StepNumbers

RECENT = 5
"""Steps that count as the present."""
FEWEST = 6
"""Steps from which on a change over the run can be told."""
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
    """How much it matters."""

    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One warning.

    Args:
        id: of its kind.
        severity: see `Severity`.
        title: a few words.
        text: what was seen, in numbers, and what it may mean.
        steps: first and last.
        filter: query of the sessions behind it; empty where none are.
    """

    id: str
    severity: Severity
    title: str
    text: str
    steps: tuple[int, int]
    filter: str = ""

    def described(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "id": self.id,
            "severity": self.severity.value,
            "title": self.title,
            "text": self.text,
            "steps": list(self.steps),
            "filter": self.filter,
        }


Check = Callable[[Sequence[StepNumbers], str], Iterator[Finding]]


def findings(
    steps: Sequence[StepNumbers], split: str, curves: Mapping[str, Sequence[float | None]] | None = None
) -> list[Finding]:
    """Warnings over the steps of a split, bad ones first.

    Args:
        steps: in order.
        split: `train` or `val`.
        curves: the trainer's numbers of the same steps, by name.
    """
    if not steps:
        return []
    found = [finding for check in _CHECKS for finding in check(steps, split)]
    found += _entropy(steps, curves or {})
    return sorted(found, key=lambda each: (each.severity is not Severity.BAD, each.id))


def _collapse(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    """A term that varied once and is the same in every session now."""
    recent = steps[-RECENT:]
    if len(steps) <= len(recent):
        return
    for name in sorted({name for step in steps for name in step.terms}):
        spans = [step.terms[name] for step in recent if name in step.terms]
        before = [step.terms[name] for step in steps[: -len(recent)] if name in step.terms]
        level = {value for span in spans for value in span}
        if len(spans) == len(recent) and len(level) == 1 and any(low < high for low, high in before):
            yield Finding(
                f"collapse:{name}",
                Severity.WARN,
                f"Reward term {name} is {next(iter(level)):.3g} in every session",
                "It varied before and teaches nothing now.",
                _ends(recent),
                _link(recent, split),
            )


def _even_groups(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    recent = steps[-RECENT:]
    groups, even = sum(step.groups for step in recent), [uid for step in recent for uid in step.even]
    if split == "train" and groups >= 4 and len(even) / groups > EVEN:
        uids = "".join(f"&uid={quote(uid, safe='')}" for uid in even[-_SOME_GROUPS:])
        yield Finding(
            "even_groups",
            Severity.BAD if len(even) == groups else Severity.WARN,
            f"{len(even)} of {groups} groups have one reward for all their sessions",
            "Their advantages are 0 under estimators that compare sessions of a group: questions that are "
            "too easy, too hard, or a policy that always does the same.",
            _ends(recent),
            _link(recent, split) + uids,
        )


def _invalid(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    change = _change(steps, "invalid")
    if change is not None and change[1].mean - change[0].mean > RISE:
        yield Finding(
            "invalid",
            Severity.BAD,
            "More turns are invalid",
            f"{change[0]} turns at first, {change[1]} now.",
            _ends(_last(steps)),
            _link(_last(steps), split) + "&invalid=1:",
        )


def _truncated(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    recent = steps[-RECENT:]
    share = _pooled(recent, "truncated")
    if share.count and share.mean > TRUNCATED:
        yield Finding(
            "truncated",
            Severity.WARN,
            f"{share} sessions are cut",
            "A turn hit its token cap, or the context was full: raise the budgets, or what is learnt is to "
            "stop early.",
            _ends(recent),
            _link(recent, split) + "&truncated=1",
        )


def _masked(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    recent = steps[-RECENT:]
    sessions, masked = sum(step.sessions for step in recent), sum(step.masked for step in recent)
    if sessions and masked / sessions > MASKED:
        yield Finding(
            "masked",
            Severity.BAD if masked / sessions > 4 * MASKED else Severity.WARN,
            f"{masked} of {sessions} sessions are masked",
            "They are left out of the loss: a service fails, or questions cannot be played.",
            _ends(recent),
            _link(recent, split) + "&status=masked",
        )


def _drift(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    recent = steps[-RECENT:]
    level = _pooled(recent, "drift")
    if level.count and level.mean > DRIFT:
        yield Finding(
            "drift",
            Severity.BAD,
            f"Server and trainer differ by {level.mean:.3f} nats a token",
            "Their log-probs of the sampled tokens should agree: other weights, other images, other "
            "precision, or sessions that are too old.",
            _ends(recent),
            _link(recent, split) + f"&drift={DRIFT}:",
        )


def _shortcut(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    """Reward up while evidence falls."""
    reward, shown = _change(steps, "reward"), _change(steps, "shown")
    if reward is None or shown is None:
        return
    if reward[1].mean > reward[0].mean and shown[0].mean - shown[1].mean > FALL:
        yield Finding(
            "shortcut",
            Severity.BAD,
            "Reward rises while evidence falls",
            f"Reward {reward[0].mean:.3f} to {reward[1].mean:.3f}; gold pages shown to {shown[0]} sessions "
            f"and then to {shown[1]}: the policy may have found a way to be paid without reading.",
            _ends(_last(steps)),
            _link(_last(steps), split) + "&guessed=1",
        )


def _guessed(steps: Sequence[StepNumbers], split: str) -> Iterator[Finding]:
    recent = steps[-RECENT:]
    share = _pooled(recent, "guessed")
    if share.count and share.mean > GUESSED:
        yield Finding(
            "guessed",
            Severity.WARN,
            f"{share} right answers come without the evidence",
            "Not every gold page was shown: guesses, a lenient judge, or evidence that stands elsewhere too.",
            _ends(recent),
            _link(recent, split) + "&guessed=1",
        )


def _entropy(steps: Sequence[StepNumbers], curves: Mapping[str, Sequence[float | None]]) -> Iterator[Finding]:
    values = [value for value in curves.get("actor/entropy", ()) if value is not None]
    if len(values) < FEWEST:
        return
    third = max(1, len(values) // 3)
    first, last = fmean(values[:third]), fmean(values[-third:])
    if first > 0 and last < ENTROPY * first:
        yield Finding(
            "entropy",
            Severity.WARN,
            f"Entropy fell from {first:.3f} to {last:.3f}",
            "Sessions of a group become alike, and there is less to learn from.",
            _ends(steps),
        )


_CHECKS: tuple[Check, ...] = (
    _collapse,
    _even_groups,
    _invalid,
    _truncated,
    _masked,
    _drift,
    _shortcut,
    _guessed,
)


def _last(steps: Sequence[StepNumbers]) -> Sequence[StepNumbers]:
    return steps[-max(1, len(steps) // 3) :]


def _change(steps: Sequence[StepNumbers], name: str) -> tuple[Share, Share] | None:
    """Of the first and of the last third; `None` of too few steps, or where nothing is known."""
    if len(steps) < FEWEST:
        return None
    first, last = _pooled(steps[: len(steps) // 3], name), _pooled(_last(steps), name)
    return (first, last) if first.count and last.count else None


def _pooled(steps: Sequence[StepNumbers], name: str) -> Share:
    found: list[Share] = [getattr(step, name) for step in steps]
    return Share(sum(each.total for each in found), sum(each.count for each in found))


def _ends(steps: Sequence[StepNumbers]) -> tuple[int, int]:
    return steps[0].step, steps[-1].step


def _link(steps: Sequence[StepNumbers], split: str) -> str:
    first, last = _ends(steps)
    return f"split={split}&step={first}-{last}"
