"""A difference as tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from docagent_rl.lab.eval.report.grids import NOTHING, Grid
from docagent_rl.lab.rescoring.difference import CreditChange, Difference, Payment

_MARK, _VERSION = "docagent_rl_rescore", 1
MOST = 10
"""Sessions that are named in the table."""


def grids_of(found: Difference, payments: Sequence[Payment]) -> list[Grid]:
    """Tables: terms, groups, credit, and the sessions whose rewards change most."""
    told = f"{found.sessions:,} sessions, {100 * found.same:.1f} % of them shown the same and ended alike"
    grids = [
        Grid(
            "Rewards",
            ("term", "before", "after", "sessions that change"),
            tuple((t.name, _n(t.before), _n(t.after), f"{100 * t.changed:.1f} %") for t in found.terms),
            (told,),
        ),
        _groups(found),
    ]
    if found.credit is not None:
        grids.append(_credit(found.credit))
    moved = sorted(payments, key=lambda each: -abs(each.change))[:MOST]
    rows = tuple(
        (
            each.question_id,
            str(each.step),
            str(each.session),
            *map(_n, (each.before["reward"], each.after["reward"])),
        )
        for each in moved
        if each.change
    )
    if rows:
        head = ("question", "step", "session", "before", "after")
        grids.append(Grid("Sessions whose reward changes most", head, rows))
    return grids


@dataclass(frozen=True, slots=True)
class Origin:
    """What a folder that was paid again came from.

    Args:
        run: whose sessions they are.
        overrides: what was changed.
        files: of sessions, by name, that are written.
    """

    run: str
    overrides: tuple[str, ...]
    files: tuple[str, ...]

    def to_json(self, found: Difference | None = None) -> str:
        """It, with all numbers once all steps are paid again."""
        numbers = {} if found is None else asdict(found)
        return json.dumps({_MARK: _VERSION, **asdict(self), **numbers}, indent=2, allow_nan=False) + "\n"

    @classmethod
    def of(cls, content: bytes) -> Origin | None:
        """What `to_json` wrote; `None` for anything else."""
        try:
            found = json.loads(content)
        except ValueError:
            return None
        if not isinstance(found, Mapping) or _MARK not in found:
            return None
        overrides, files = (tuple(map(str, found.get(name) or ())) for name in ("overrides", "files"))
        return cls(str(found.get("run", "")), overrides, files)


def _groups(found: Difference) -> Grid:
    groups = found.groups
    rows = (
        ("groups of two sessions and more", f"{groups.groups:,}"),
        ("whose sessions all earned the same before", f"{groups.flat_before:,}"),
        ("and do after", f"{groups.flat_after:,}"),
        ("order of the sessions of the others, Kendall's tau-b", _n(groups.agreement)),
        ("groups with another best session", f"{100 * groups.best_changed:.1f} %"),
    )
    return Grid("Groups", ("", "number"), rows)


def _credit(credit: CreditChange) -> Grid:
    rows = (
        ("turns with advantages", f"{credit.turns:,}"),
        ("mean size before", _n(credit.before)),
        ("mean size after", _n(credit.after)),
        ("turns of the other sign", f"{100 * credit.flipped:.1f} %"),
        ("correlation", _n(credit.correlation)),
    )
    return Grid("Advantages of turns", ("", "number"), rows)


def _n(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"
