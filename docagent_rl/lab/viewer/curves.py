"""The numbers of a run's steps, as the trainer wrote them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from docagent_rl.lab.viewer.features import number

_FILE = re.compile(r"(val-)?(\d{1,12})\.json")
_VALIDATED = ("val-core/", "val-aux/")


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers by step.

    Args:
        steps: in order.
        values: by name, one a step; `None` where a step has none.
    """

    steps: list[int] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"steps": self.steps, "values": self.values}


def read_curves(run_dir: Path) -> dict[str, Series]:
    """Read the numbers of `<run>/metrics`, those of training as `train` and those of validations as `val`.

    The file of a step that was validated, too, holds both: verl's names tell them apart.
    """
    found: dict[str, dict[int, dict[str, float]]] = {"train": {}, "val": {}}
    for path in (run_dir / "metrics").glob("*.json"):
        if name := _FILE.fullmatch(path.name):
            try:
                status = path.stat()
            except OSError:
                continue
            own, step = "val" if name[1] else "train", int(name[2])
            found[own].setdefault(step, {})
            for key, value in _read(path, status.st_mtime_ns, status.st_size).items():
                split = "val" if key.startswith(_VALIDATED) else own
                found[split].setdefault(step, {})[key] = value
    return {split: series(steps) for split, steps in found.items()}


def series(steps: Mapping[int, Mapping[str, float]]) -> Series:
    """Numbers of steps as one list for each name."""
    order = sorted(steps)
    names = sorted({name for numbers in steps.values() for name in numbers})
    return Series(order, {name: [number(steps[step].get(name)) for step in order] for name in names})


def described(curves: Mapping[str, Series]) -> dict[str, Any]:
    """Ready for JSON, with all names."""
    names = _sorted(name for each in curves.values() for name in each.values)
    return {"names": names, **{split: each.described() for split, each in curves.items()}}


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(set(names))


@lru_cache(maxsize=100_000)
def _read(path: Path, changed: int, size: int) -> Mapping[str, float]:
    """A file as it was at a time; what is damaged holds nothing."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
