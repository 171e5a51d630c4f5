"""Every family in every layout of rows, on the processor: a table of docs/models.md.

python -m tools.layouts [FAMILY ...]

About half a minute a family, each in a process of its own, since verl changes the attention of classes for
good.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from docagent_rl.models import families, get_family
from tools.gpu_check.check import Machine
from tools.gpu_check.layouts import Agreement, layouts, measure, small_family
from tools.gpu_check.runner import environment

MARK = "LAYOUTS "
CPU = Machine(None, 0.0, vllm=False)
UNFUSED = {"gemma4": "no fused kernel has the cap of its logits"}
"""Families whose log-probs cannot be fused, and why; a run that asks for it is refused."""
COLUMNS = tuple(layouts(0, fused=True))


def of_family(name: str, folder: Path) -> dict[str, Agreement]:
    """Measure the layouts of a family in this process, by name."""
    made = small_family(name, CPU.device, folder)
    # micro-batches of several rows, more than one of them
    tokens = max(max(made.lengths), int(0.6 * sum(made.lengths)))
    ways = layouts(tokens, fused=name not in UNFUSED)
    return {way: measure(made, settings) for way, settings in ways.items()}


def in_a_process(name: str, python: Path | str = sys.executable) -> dict[str, Agreement]:
    """Measure the layouts of a family in a process of its own.

    Raises:
        RuntimeError: it ended with an error; holds the end of its log.
    """
    with tempfile.TemporaryDirectory(prefix="layouts-") as folder:
        done = subprocess.run(
            [python, "-m", "tools.layouts", "--in-this-process", name, folder],
            env=environment(CPU, Path(folder)),
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not lines:
        raise RuntimeError(f"{name}: status {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(lines[-1].removeprefix(MARK))
    return {way: Agreement(**numbers) for way, numbers in found.items()}


def cell(agreement: Agreement) -> str:
    """Return the largest difference of a log-prob, and how far the least cosine is from 1."""
    apart = max(0.0, 1 - min(agreement.cosines.values()))
    return f"{max(agreement.rows):.0e}, {apart:.0e}"


def row(name: str, found: dict[str, Agreement]) -> str:
    """Return a row of the table, in Markdown."""
    cells = [cell(found[way]) if way in found else f"refused: {UNFUSED[name]}" for way in COLUMNS]
    return f"| `{name}` | {' | '.join(cells)} |"


def main(names: Sequence[str]) -> None:
    """Print a row for each family."""
    print(f"| family | {' | '.join(COLUMNS)} |\n|{'---|' * (1 + len(COLUMNS))}")
    for name in names or [family.name for family in families()]:
        found = in_a_process(get_family(name).name)
        print(row(name, found), flush=True)
        for way, agreement in found.items():
            for problem in agreement.problems():
                print(f"{name}, {way}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-this-process"]:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        measured = of_family(sys.argv[2], Path(sys.argv[3]))
        print(MARK + json.dumps({way: asdict(agreement) for way, agreement in measured.items()}))
    else:
        main(sys.argv[1:])
