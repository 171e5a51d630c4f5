"""Which pages were collected, against which are evidence: recall, precision and F1 of one question."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import asdict

from docagent_rl.rewards.retrieval import navigation


def page_recall(gold: Collection[Hashable], pred: Collection[Hashable]) -> float | None:
    """Share of the evidence pages that were collected; `None` without evidence."""
    return page_numbers(gold, pred)["recall"]


def page_precision(gold: Collection[Hashable], pred: Collection[Hashable]) -> float | None:
    """Share of the collected pages that are evidence, 0 when there are none; `None` without evidence."""
    return page_numbers(gold, pred)["precision"]


def page_f1(gold: Collection[Hashable], pred: Collection[Hashable]) -> float | None:
    """Harmonic mean of both; `None` without evidence."""
    return page_numbers(gold, pred)["f1"]


def page_numbers(gold: Collection[Hashable], pred: Collection[Hashable]) -> dict[str, float | None]:
    """`recall`, `precision` and `f1`, each in `[0, 1]`, and all `None` without evidence."""
    score = navigation(pred, gold)
    return dict.fromkeys(("recall", "precision", "f1")) if score is None else asdict(score)
