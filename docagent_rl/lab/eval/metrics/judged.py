"""Judged accuracy of VRAG-RL and UniDoc-RL (`verl/workers/reward_manager` of both): True or False."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.lab.eval.metrics.tags import first_tag, last_tag

PLEA = "Please Judge False"
"""What is judged where there is no answer."""


class Flavour(StrEnum):
    """Whose rules hold."""

    VRAG = "vrag"
    UNIDOC = "unidoc"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Share of answers judged right.

    Args:
        value: in `[0, 1]`.
        count: questions.
        failures: questions without a verdict; they count as wrong.
    """

    value: float
    count: int
    failures: int


def parse_bool_judge(text: str, flavour: Flavour | str) -> bool | None:
    """The verdict in a judge's reply, by the first pair of `<judge>` tags.

    - `vrag`: yes when it holds `true` or `True`, else no when it holds `false` or `False`.
    - `unidoc`: yes when it holds `true` in any case, else no, also without a pair.

    Returns:
        `None` when the judge has to be asked again, which `unidoc` never does.

    Raises:
        ValueError: no such flavour.
    """
    said = first_tag(text, "judge")
    if Flavour(flavour) is Flavour.UNIDOC:
        return said is not None and "true" in said.lower()
    if said is None:
        return None
    if "true" in said or "True" in said:
        return True
    return False if "false" in said or "False" in said else None


def judged_answer(response: str) -> str:
    """The answer that a judge sees: the last `<answer>` that is closed, or `PLEA`."""
    answer = last_tag(response, "answer")
    return PLEA if answer is None else answer


def is_judged(response: str, flavour: Flavour | str, *, require_search: bool | None = None) -> bool:
    """Whether a response goes to the judge; one that does not scores 0.

    Args:
        response: what the policy wrote.
        flavour: whose rules hold.
        require_search: a pair of `<search>` and one of `<answer>` tags must be there; true for `vrag` and
            false for `unidoc` by default.
    """
    required = Flavour(flavour) is Flavour.VRAG if require_search is None else require_search
    return not required or all(first_tag(response, name) is not None for name in ("search", "answer"))


def judged_accuracy(verdicts: Iterable[bool | None]) -> Accuracy:
    """Share of True over all questions; `None` is a judge that failed after its retries."""
    rows = list(verdicts)
    right = sum(verdict is True for verdict in rows)
    return Accuracy(right / len(rows) if rows else 0.0, len(rows), rows.count(None))
