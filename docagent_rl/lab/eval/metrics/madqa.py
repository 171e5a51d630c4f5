"""MADQA (arXiv 2603.12180, section 3; GitHub `OxRML/MADQA`, `eval/metrics.py` and
`eval/evaluate.py`).
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from docagent_rl.lab.eval.metrics.judges import Grade
from docagent_rl.rewards.answer_rule import best_matching
from docagent_rl.rewards.text import edit_distance
from docagent_rl.samples.sample import Page

_THRESHOLD = 0.5
"""Similarities below this count as 0."""
_LONGEST = 2000
"""An answer that is longer than this as JSON, in characters, is wrong, and no judge is asked."""
_GRADES: Mapping[Grade | None, float] = {Grade.CORRECT: 1.0, Grade.PARTIAL: 0.5}
SENSITIVITY = 0.98
SPECIFICITY = 1.0
"""Shares of right and of wrong answers that the benchmark's judge, Gemini 2.5 Flash, classifies
correctly.
"""

Effort = tuple[float, bool]
"""Number of steps of a trajectory, and whether its answer is right."""


def anls_star(variants: Iterable[Sequence[str]], pred: Sequence[str]) -> float:
    """Return ANLS* of an answer (arXiv 2402.03848, lists of texts), in `[0, 1]`: the best over the
    variants.

    It is the sum of similarities in the best one-to-one matching of items, divided by the length of
    the longer list. Case and whitespace do not matter; similarities below 0.5 are 0.

    Args:
        variants: right answers, each as the list of its items.
        pred: items of the answer; an empty list scores 0.
    """
    if not pred:
        return 0.0
    scores = []
    for items in variants:
        table = [[_similarity(item, each) for each in pred] for item in items]
        scores.append(best_matching(table) / max(len(items), len(pred)))
    return max(scores, default=0.0)


def semantic_score(similarity: float, grade: Grade | None, pred: str | Sequence[str]) -> float:
    """Return the score of an answer from ANLS* and a judge: 1, 0.5 or 0.

    An ANLS* of 1 is right whatever the judge says; an empty answer, one of more than 2,000
    characters, and one without a grade are wrong.
    """
    if not pred or not any(pred) or len(json.dumps(pred)) > _LONGEST:
        return 0.0
    return 1.0 if similarity >= 1.0 else _GRADES.get(grade, 0.0)


def hop(pages: Collection[Page]) -> str:
    """Return the kind of a question by its evidence: `single`, `cross_page` or `cross_doc`."""
    if len({document for document, _ in pages}) > 1:
        return "cross_doc"
    return "cross_page" if len(set(pages)) > 1 else "single"


def kuiper(played: Iterable[Effort]) -> float | None:
    """Return the Kuiper statistic of effort and accuracy: 0 or more, lower is better.

    With correctness `y` sorted by the number of steps, and its mean `m`, it is the range of the
    sums `D_k = sum_{i<=k} (y_i - m)` for k from 1. Trajectories with equally many steps keep their
    order; those without steps are left out.

    It is `None` if all answers are right, all are wrong, or there are none.
    """
    rights = [right for _, right in sorted(_with_steps(played), key=lambda each: each[0])]
    if len(set(rights)) < 2:
        return None
    mean = sum(rights) / len(rights)
    total = 0.0
    sums = []
    for right in rights:
        total += right - mean
        sums.append(total)
    return max(sums) - min(sums)


def wasted_effort(played: Iterable[Effort]) -> float | None:
    """Return the mean steps of wrong answers divided by that of right ones; `None` without a right
    answer.

    Trajectories without steps are left out; without a wrong answer the result is 0.
    """
    right = []
    wrong = []
    for steps, is_right in _with_steps(played):
        (right if is_right else wrong).append(steps)
    if not right:
        return None
    return (sum(wrong) / len(wrong) if wrong else 0.0) / (sum(right) / len(right))


def _with_steps(played: Iterable[Effort]) -> list[Effort]:
    return [each for each in played if each[0] > 0]


def _similarity(gold: str, pred: str) -> float:
    a, b = (" ".join(text.lower().split()) for text in (gold, pred))
    longest = max(len(a), len(b))
    similarity = 1.0 - edit_distance(a, b) / longest if longest else 1.0
    return similarity if similarity >= _THRESHOLD else 0.0
