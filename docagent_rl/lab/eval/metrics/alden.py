"""ALDEN (arXiv 2510.25668, appendix E): judged accuracy, navigation and the number of pages collected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.lab.eval.metrics.pages import page_numbers
from docagent_rl.lab.eval.metrics.scored import Mean
from docagent_rl.lab.eval.metrics.tags import first_tag


class Label(StrEnum):
    """What a judge makes of an answer."""

    CORRECT = "Correct"
    INCORRECT = "Incorrect"
    TIE = "Tie/Unclear"


_LABELS = {
    "correct": Label.CORRECT,
    "incorrect": Label.INCORRECT,
    "tie/unclear": Label.TIE,
    "tie": Label.TIE,
    "unclear": Label.TIE,
}


@dataclass(frozen=True, slots=True)
class AldenRow:
    """One question.

    Args:
        label: the judge's; `None` where it gave none.
        gold: evidence pages, none for an unanswerable question.
        collected: pages of the whole session, by search and fetch, as images and as text.
    """

    label: Label | None
    gold: Collection[Hashable]
    collected: Collection[Hashable]


@dataclass(frozen=True, slots=True)
class AldenTable:
    """Means over questions; those without evidence are left out of the first three (`Mean.count`).

    Args:
        acc: share judged correct of all questions.
        rec: of the evidence pages.
        pre: of the evidence pages; 0 where nothing was collected.
        f1: mean of the questions' F1, not the F1 of the means (Eq. 11).
        up: distinct pages collected.
        labels: questions by label.
        unlabelled: questions without a label; they count as not correct.
    """

    acc: Mean
    rec: Mean
    pre: Mean
    f1: Mean
    up: Mean
    labels: dict[Label, int]
    unlabelled: int


def parse_label_judge(text: str) -> Label | None:
    """The label in a judge's reply, between the first pair of `<label>` tags; `None` without one.

    The paper's prompt is not published: the tags are those of `alden_judge`.
    """
    said = first_tag(text, "label")
    return None if said is None else _LABELS.get("".join(said.lower().split()).rstrip("."))


def alden_table(rows: Iterable[AldenRow]) -> AldenTable:
    """Acc, Rec, Pre, F1 and #UP over questions (Eq. 8 to 11)."""
    questions = list(rows)
    numbers = [page_numbers(row.gold, row.collected) for row in questions]
    labels = Counter(row.label for row in questions)
    return AldenTable(
        acc=Mean.of(float(row.label is Label.CORRECT) for row in questions),
        rec=Mean.of(each["recall"] for each in numbers),
        pre=Mean.of(each["precision"] for each in numbers),
        f1=Mean.of(each["f1"] for each in numbers),
        up=Mean.of(float(len(set(row.collected))) for row in questions),
        labels={label: labels[label] for label in Label},
        unlabelled=labels[None],
    )
