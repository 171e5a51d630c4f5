"""Scored trajectories with chosen values, and slow versions of the statistics."""

import itertools
from collections import defaultdict

import numpy as np

from docagent_rl.lab.eval.scoring.roles import Author
from docagent_rl.lab.eval.scoring.scored import Form, Measure, ScoredTrajectory, mean
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.lab.eval.metrics.slow import accuracy_f1

HOSTILE = [
    "| a | b |", "[x](http://evil.example/a)", "![x](http://evil.example/a.png)",
    "<script>alert(1)</script>",
    "`code`", "# head", "a\n\n# head\n|x|", "**bold**", "[red]red[/red]",
    "[link=http://e.example]x[/link]",
    "$\\frac{1}{0}$ "
    "$x", "_under_", "&lt;b&gt;", '" onload="x', "]]>", "\x1b[31mred\x1b[0m", "\u202egnihton",
    "\x00", "\ud83d", "http://evil.example", "www.evil.example", "mail@evil.example", "---",
    "1. one",
    "~~gone~~", "x" * 5000, "<!-- -->", "\\", "|\\|", "日本語",
]  # fmt: skip
OVERALL = "judged right, over MMLongBench-Doc, SlideVQA and ViDoSeek"
SCORE = mean("score", "score")
F1 = Measure("f1", "F1", "score", Form.F1)


def scored(
    question, score, *, document=None, number=0, pred="x", gold="x", **changes
) -> ScoredTrajectory:
    values = None
    if score is not None:
        values = {
            "score": float(score),
            "gold_answerable": float(gold != NOT_ANSWERABLE),
            "answered": float(pred != NOT_ANSWERABLE),
        }
    settings = {
        "question_id": f"q{question}",
        "number": number,
        "document": document or f"d{question}",
        "dataset": "mmlongbench",
        "system": "own",
        "agent": "m",
        "status": "finished",
        "reason": "answered",
        "scored": True,
        "answer": pred,
        "labels": {},
        "groups": [],
        "values": values or {},
    }
    return ScoredTrajectory(**(settings | changes))


def told(value, by, failed=False):
    """Return a role's reply."""
    return {"value": value, "by": by, "failed": failed}


def over_three(by="judge-1", system="vrag_rl"):
    """Yield trajectories in which a quarter of the questions of each benchmark of VRAG-RL's table
    is judged right.
    """
    for dataset in ("slidevqa", "vidoseek", "mmlongbench"):
        for n in range(4):
            values = {"judged": float(n == 0), "score": 0.0, "qa_f1": 0.0, "passing": 0.0}
            one = scored(f"{dataset}{n}", 0, dataset=dataset, system=system, values=values)
            one.replies["true_false_judge"] = told(n == 0, by if n else Author.NOBODY.value)
            yield one


def slow_number(trajectories, measure) -> float | None:
    """Compute the number with the official function over whole lists, with the trajectories of a
    question one after the other.
    """
    rounds = defaultdict(list)
    for each in trajectories:
        rounds[each.number].append(each)
    found = []
    for group in rounds.values():
        rows = [
            (
                "x" if each.values["gold_answerable"] else NOT_ANSWERABLE,
                "x" if each.values["answered"] else NOT_ANSWERABLE,
                each.values["score"],
            )
            for each in group
            if "score" in each.values
        ]
        if rows:
            found.append(accuracy_f1(rows)[measure.form is Form.F1])
    return float(np.mean(found)) if found else None


def slow_bootstrap(trajectories, measure, draws, seed, level=0.95):
    """Resample documents, written out."""
    homes = defaultdict(list)
    for each in trajectories:
        homes[each.document].append(each)
    names = sorted(homes)
    rng, found, left = np.random.default_rng(seed), [], draws
    while left:
        size = min(256, left)
        left -= size
        for times in rng.multinomial(len(names), [1 / len(names)] * len(names), size=size):
            chosen = [
                s for name, many in zip(names, times, strict=True) for s in homes[name] * many
            ]
            found.append(slow_number(chosen, measure))
    tail = (1 - level) / 2
    return [float(np.quantile(found, end)) for end in (tail, 1 - tail)]


def slow_permutation(first, second, measure):
    """Try all ways in which documents change sides, written out."""
    names = sorted({each.document for each in first})
    observed = abs(slow_number(second, measure) - slow_number(first, measure))
    reached = total = 0
    for sides in itertools.product((False, True), repeat=len(names)):
        swapped = {name for name, side in zip(names, sides, strict=True) if side}
        a = [s for s in first if s.document not in swapped] + [
            s for s in second if s.document in swapped
        ]
        b = [s for s in second if s.document not in swapped] + [
            s for s in first if s.document in swapped
        ]
        total += 1
        reached += abs(slow_number(b, measure) - slow_number(a, measure)) >= observed - 1e-12
    return reached / total
