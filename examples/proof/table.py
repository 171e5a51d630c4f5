"""Write the tables of the committed results: gains, comparisons of arms, floors, missing units."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from proof.floors import COMMONEST, ORACLE, QUESTION_ONLY, RANDOM
from proof.results import FLOORS, RESULTS, UnitResult, read_again, read_results
from proof.statistics import Interval, clustered_gain, over_seeds
from proof.tasks import SYSTEMS, get_task
from proof.unit import REWARD, SEEDS, Unit, in_order

BEGIN = "<!-- made by `python -m proof table` -->"
END = "<!-- to here -->"
"""Marks in docs/proof.md: the text between them is replaced."""
_HEAD = ("system", "arm", "steps", "seeds", "warm start", "trained", "gain", "trained, blank pages")
_MORE = ("gain of each seed", "by kind of question, trained", "commit of each seed")


def make_table(folder: Path = RESULTS) -> str:
    """Return the tables of all results in a folder as Markdown."""
    results = read_results(folder)
    return "\n\n".join(
        [
            *("### Units", _units(results)),
            *("### Measured again", _again(results, read_again(folder))),
            *("### The recipe less the other arms", _differences(results)),
            *("### Floors and ceiling", _floors(results, folder)),
            _missing(results),
        ]
    )


def write_table(page: Path, folder: Path = RESULTS) -> Path:
    """Write the tables between the marks of a page.

    Raises:
        UserError: the page has no marks.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UserError(
            f"{page}: the marks between which the table is written are missing: {BEGIN!r}, {END!r}"
        )
    return atomic_write(page, f"{before}{BEGIN}\n\n{make_table(folder)}\n\n{END}{after}")


def groups(results: Iterable[UnitResult]) -> list[list[UnitResult]]:
    """Group the results of the same system, arm and settings, each group sorted by seed.

    Arms are in the order of the study.
    """
    found: dict[tuple[str, str, str, bool], list[UnitResult]] = {}
    for result in sorted(results, key=lambda r: r.seed):
        key = (result.system, result.arm, result.settings, not result.current)
        found.setdefault(key, []).append(result)
    units = in_order(_written(), seeds=(0,))
    position = {(unit.system, unit.arm): number for number, unit in enumerate(units)}

    def order(key: tuple[str, str, str, bool]) -> tuple[str, int, tuple[str, str, str, bool]]:
        system, arm, *_ = key
        return system, position.get((system, arm), len(position)), key

    return [found[key] for key in sorted(found, key=order)]


def gain_of(result: UnitResult) -> Interval:
    """Return the gain in the share of right answers, with an interval over documents."""
    return clustered_gain(result.before.right, result.after.right, result.before.documents)


def missing(results: Iterable[UnitResult], seeds: Sequence[int] = SEEDS) -> list[Unit]:
    """Return the units that have no result for the current settings, the most informative first."""
    done = {(result.system, result.arm, result.seed) for result in results if result.current}
    units = in_order(_written(), seeds=seeds)
    return [unit for unit in units if (unit.system, unit.arm, unit.seed) not in done]


def _units(results: Sequence[UnitResult]) -> str:
    return _grid((*_HEAD, *_MORE), [_row(group) for group in groups(results)])


def _row(runs: Sequence[UnitResult]) -> list[str]:
    gains = [gain_of(run) for run in runs]
    kinds = sorted(set(runs[0].after.kinds))
    by_kind = (
        f"{kind} {over_seeds([run.after.of_kind(kind) for run in runs]).mean:.3f}" for kind in kinds
    )
    # a result with other settings stays in the table until the unit is measured again
    mark = "" if runs[0].current else " (other settings)"
    return [
        f"`{runs[0].system}`",
        f"{runs[0].arm}{mark}",
        ", ".join(str(steps) for steps in sorted({run.steps for run in runs})),
        ", ".join(str(run.seed) for run in runs),
        f"{over_seeds([run.before.accuracy for run in runs]).mean:.3f}",
        f"{over_seeds([run.after.accuracy for run in runs]).mean:.3f}",
        # with a single seed, the interval is over documents
        str(over_seeds([run.gain for run in runs]) if len(runs) > 1 else gains[0]),
        f"{over_seeds([run.blank_after.accuracy for run in runs]).mean:.3f}",
        ", ".join(map(str, gains)),
        ", ".join(by_kind),
        ", ".join(run.commit for run in runs),
    ]


def _again(results: Sequence[UnitResult], later: Sequence[UnitResult]) -> str:
    """Return the table of units that a later commit measured again, with the gains of both."""
    first = {(run.system, run.arm, run.seed): run for run in results}
    rows = []
    for run in later:
        before = first[run.system, run.arm, run.seed]
        cells = [f"`{run.system}`", f"{run.arm}, seed {run.seed}"]
        for each in (before, run):
            cells += [each.commit, f"{each.after.accuracy:.3f}", str(gain_of(each))]
        rows.append(cells)
    return _grid(("system", "unit", "commit", "trained", "gain", "commit", "trained", "gain"), rows)


def _differences(results: Sequence[UnitResult]) -> str:
    """Return the table of differences between the recipe and each other arm after training.

    Differences are taken seed by seed, since both arms answered the same questions.
    """
    recipe = {(run.system, run.seed): run for run in results if run.arm == REWARD and run.current}
    rows = []
    for group in groups(results):
        # the arm's runs that have a run of the recipe with the same seed
        runs = [run for run in group if (run.system, run.seed) in recipe]
        if group[0].arm == REWARD or not group[0].current or not runs:
            continue

        differences = []
        same_answers_before = []
        for run in runs:
            of_recipe = recipe[run.system, run.seed]
            differences.append(
                clustered_gain(run.after.right, of_recipe.after.right, of_recipe.after.documents)
            )
            is_same = of_recipe.before.right == run.before.right
            same_answers_before.append("yes" if is_same else "no")

        # with a single seed, the interval is over documents
        mean = differences[0]
        if len(differences) > 1:
            mean = over_seeds([difference.mean for difference in differences])
        rows.append(
            [
                f"`{group[0].system}`",
                group[0].arm,
                ", ".join(str(run.seed) for run in runs),
                str(mean),
                ", ".join(map(str, differences)),
                ", ".join(same_answers_before),
            ]
        )
    return _grid(
        ("system", "arm", "seeds", "recipe less arm", "of each seed", "same answers before"), rows
    )


def _floors(results: Sequence[UnitResult], folder: Path) -> str:
    rows = []
    for system in sorted({result.system for result in results}):
        file = folder / system / FLOORS
        if not file.is_file():
            continue
        numbers = json.loads(file.read_text(encoding="utf-8"))
        names = (QUESTION_ONLY, COMMONEST, RANDOM, ORACLE)
        rows.append([f"`{system}`", *(f"{numbers[name]['accuracy']:.3f}" for name in names)])
    return _grid(("system", "question alone", "commonest answer", "random actions", "oracle"), rows)


def _missing(results: Sequence[UnitResult]) -> str:
    lacking: dict[str, list[str]] = {}
    for unit in missing(results):
        lacking.setdefault(unit.system, []).append(unit.name)
    for system in sorted(set(SYSTEMS) - set(_written())):
        lacking[system] = ["its task is not written"]
    lines = (f"- `{system}`: {', '.join(names)}" for system, names in sorted(lacking.items()))
    return "\n".join(["### Not measured", "", *(lines if lacking else ("Nothing.",))])


def _written() -> list[str]:
    """Return the systems that have a task."""
    found = []
    for system in SYSTEMS:
        try:
            get_task(system)
        except UserError:
            continue
        found.append(system)
    return found


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
