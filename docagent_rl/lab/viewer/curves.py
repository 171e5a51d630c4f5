"""The numbers of a run's steps, as the trainer wrote them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from docagent_rl.lab.viewer.features import number

_FILE = re.compile(r"(val-)?(\d{1,12})\.json")
_VALIDATED = ("val-core/", "val-aux/")

Curves = dict[str, dict[int, dict[str, float]]]
"""Numbers by split, step and name."""


def read_curves(run_dir: Path) -> Curves:
    """Read the numbers of `<run>/metrics`: those of training as `train`, those of validations as `val`.

    The file of a step that was validated as well holds both: verl's names tell them apart.
    """
    found: Curves = {"train": {}, "val": {}}
    for path in (run_dir / "metrics").glob("*.json"):
        name = _FILE.fullmatch(path.name)
        if name is None:
            continue
        try:
            status = path.stat()
        except OSError:  # set aside since it was listed
            continue
        own, step = "val" if name[1] else "train", int(name[2])
        found[own].setdefault(step, {})
        for key, value in _read(path, status.st_mtime_ns, status.st_size).items():
            split = "val" if key.startswith(_VALIDATED) else own
            found[split].setdefault(step, {})[key] = value
    return found


def series(steps: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
    """Return steps in order and, for each name, a number a step: `None` where a step has none."""
    order = sorted(steps)
    names = sorted({name for numbers in steps.values() for name in numbers})
    return {"steps": order, "values": {n: [number(steps[step].get(n)) for step in order] for n in names}}


def described(curves: Curves) -> dict[str, Any]:
    """Return curves ready for JSON, with all their names."""
    found = {split: series(steps) for split, steps in curves.items()}
    return {"names": sorted({name for each in found.values() for name in each["values"]}), **found}


@lru_cache(maxsize=100_000)
def _read(path: Path, changed: int, size: int) -> Mapping[str, float]:
    """Read a file as it was at a time; a damaged one holds nothing."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
