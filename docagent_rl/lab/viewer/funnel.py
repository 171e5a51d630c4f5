"""The evidence funnel over trajectories of the index, and a picture of it: where wrong ones were lost."""

from __future__ import annotations

import io
import sqlite3
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import visible
from docagent_rl.lab.viewer.queries import FIELDS, Pair, condition
from docagent_rl.rollout.evidence import STAGES, Branch, Evidence, Stage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LOST = 20
"""Trajectories that are named of each loss; the filter beside them finds all."""
WORDS = {
    Stage.ALL: ("questions", "Trajectories that were played, of questions whose evidence is known."),
    Stage.SOUGHT: ("looked for", "The agent searched, or opened a page."),
    Stage.REACH: ("in reach", "The question itself, as a query, finds every gold page."),
    Stage.FOUND: ("found", "Queries of the agent returned every gold page, or it opened them by number."),
    Stage.SHOWN: ("shown", "They entered the context, as images of their own or as text."),
    Stage.LOOKED: ("looked at", "They could be read: whole, zoomed or as text."),
    Stage.ANSWERED: ("answered", "The trajectory gave an answer."),
    Stage.KEPT: ("kept", "They were still in the context when the agent answered."),
    Stage.RIGHT: ("right", "The answer was right, with the evidence or without."),
}
_BRANCHES = {
    Branch.ZOOMED: ("zoomed", "A crop covered the evidence and showed it larger than the whole page did."),
    Branch.WHOLE: ("read whole", "The page was shown whole, and not only to choose from."),
    Branch.TEXT: ("as text", "Its text was shown, or somebody else read it."),
}
_BY = ("none", "step", "system", "kind", "dataset", "split", "stage")
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
_MOST_GROUPS = 12
"""Of a picture."""
_LONGEST_LABEL = 48


def funnel(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Count the trajectories of a link that came to each stage, for each value of the field `by`.

    Raises:
        UserError: a parameter is unknown, or does not take its value.
    """
    by = dict(pairs).get("by") or "none"
    if by not in _BY:
        raise UserError(f"by={by!r}; known are {', '.join(_BY)}")
    where, values = condition(pairs, ignored={"by"})
    column = "'all'" if by == "none" else FIELDS[by]
    rows = base.execute(
        f'SELECT {column} AS key, id, stage, reach, "right", branch, mask FROM trajectories WHERE {where} '
        "ORDER BY key, step, uid, number",
        values,
    )
    return {
        "stages": [{"id": stage, "label": name, "about": about} for stage, (name, about) in WORDS.items()],
        "branches": [{"id": way, "label": name, "about": about} for way, (name, about) in _BRANCHES.items()],
        "groups": [_group(str(key), list(own)) for key, own in groupby(rows, lambda row: row["key"])],
    }


def counts_of(found: Iterable[Evidence]) -> dict[str, int | None]:
    """Count the trajectories that came to each stage; `None` where that is not known of all."""
    known = list(found)
    reached = {stage.value: [each.reached(stage) for each in known] for stage in STAGES}
    return {stage: None if None in each else sum(map(bool, each)) for stage, each in reached.items()}


def lost_at(found: Sequence[tuple[int, Evidence]], counts: Mapping[str, int | None]) -> dict[str, list[int]]:
    """Return wrong trajectories by the stage that they missed, having come to the one before."""
    stages = [stage for stage in STAGES if counts[stage.value] is not None]
    wrong = [(trajectory, each) for trajectory, each in found if not each.right]
    return {
        stage.value: [trajectory for trajectory, e in wrong if e.reached(before) and not e.reached(stage)]
        for before, stage in pairwise(stages)
    }


def _group(key: str, rows: Sequence[sqlite3.Row]) -> dict[str, Any]:
    found = [(row["id"], _evidence(row)) for row in rows if row["stage"]]
    each = [evidence for _, evidence in found]
    counts = counts_of(each)
    lost = lost_at(found, counts)
    branches = {branch: [one for one in each if one.branch is branch] for branch in Branch}
    return {
        "key": key,
        "trajectories": len(found),
        "counts": counts,
        "lost": {stage: trajectories[:MOST_LOST] for stage, trajectories in lost.items()},
        "lost_counts": {stage: len(trajectories) for stage, trajectories in lost.items()},
        "filters": {stage: _filter(stage, counts) for stage in lost},
        "without": len(rows) - len(found),
        "played": sum(not row["mask"] for row in rows),
        "right": sum(bool(row["right"]) and not row["mask"] for row in rows),
        "branches": {
            branch: {"trajectories": len(own), "right": sum(bool(one.right) for one in own)}
            for branch, own in branches.items()
        },
        "guessed": sum(one.guessed for one in each),
    }


def _filter(missed: str, counts: Mapping[str, int | None]) -> str:
    """Return the link to the trajectories of a loss: wrong ones whose last stage lies before it."""
    names = [stage.value for stage in STAGES]
    end = names.index(missed)
    begin = max(place for place in range(end) if counts[names[place]] is not None)
    wrong = "right=0" if counts[Stage.RIGHT] is not None else "right=0&right="
    return "&".join([*(f"stage={name}" for name in names[begin:end]), wrong])


def _evidence(row: sqlite3.Row) -> Evidence:
    reach, right = (None if row[name] is None else bool(row[name]) for name in ("reach", "right"))
    return Evidence(Stage(row["stage"]), reach, right, Branch(row["branch"]) if row["branch"] else None)


def funnel_figure(found: Mapping[str, Any], by: str) -> str:
    """Draw what `funnel` returned for a field `by`, as SVG: steps become lines, all else bars.

    The same counts give the same picture; texts in it are never markup or formulae.

    Raises:
        UserError: no trajectory has known evidence.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.text import Text

    groups = [group for group in found["groups"] if group["trajectories"]]
    if not groups:
        raise UserError("no trajectory with known evidence: there is no funnel to draw")
    with (
        pyplot.rc_context({"svg.hashsalt": "docagent-rl", "svg.fonttype": "none", "font.size": 9}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of letters that the font lacks: the reader's has them
        drawn, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
        if by == "step":
            _lines(axes, sorted(groups, key=lambda group: int(group["key"])), found["stages"])
        else:
            _bars(axes, groups[:_MOST_GROUPS], found["stages"])
        axes.set_ylim(0, 1.08)
        axes.set_ylabel("share of the trajectories whose evidence is known")
        axes.grid(axis="y", linewidth=0.4)
        axes.legend(fontsize=7)
        for text in drawn.findobj(Text):
            text.set_parse_math(False)
        buffer = io.StringIO()
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(drawn)
    return buffer.getvalue()


def _bars(axes: Axes, groups: Sequence[Mapping[str, Any]], stages: Sequence[Mapping[str, str]]) -> None:
    width = 0.8 / len(groups)
    known = [stage for stage in stages if any(group["counts"][stage["id"]] is not None for group in groups)]
    for number, group in enumerate(groups):
        counts = [group["counts"][stage["id"]] for stage in known]
        label = visible(group["key"]).replace("\n", " ")
        label = label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"
        bars = axes.bar(
            [place - 0.4 + width * (number + 0.5) for place in range(len(known))],
            [(count or 0) / group["trajectories"] for count in counts],
            width,
            label=f"{label} ({group['trajectories']})",
            color=_COLOURS[number % len(_COLOURS)],
        )
        if len(groups) <= 3:
            axes.bar_label(bars, ["" if count is None else str(count) for count in counts], fontsize=7)
    axes.set_xticks(range(len(known)), [stage["label"] for stage in known])


def _lines(axes: Axes, groups: Sequence[Mapping[str, Any]], stages: Sequence[Mapping[str, str]]) -> None:
    for number, stage in enumerate(stages[1:]):
        known = [group for group in groups if group["counts"][stage["id"]] is not None]
        if known:
            axes.plot(
                [int(group["key"]) for group in known],
                [group["counts"][stage["id"]] / group["trajectories"] for group in known],
                marker="o",
                markersize=3,
                label=stage["label"],
                color=_COLOURS[number % len(_COLOURS)],
            )
    axes.set_xlabel("step")
