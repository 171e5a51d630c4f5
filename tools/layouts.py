"""Compare every layout of rows with single rows for every family: a table of docs/models.md.

python -m tools.layouts [FAMILY ...]

It runs on the CPU and takes about half a minute per family. Each family has a process of its own,
since verl changes the attention of classes permanently.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from docagent_rl.models import families, get_family
from tools.gpu_check.check import Machine
from tools.gpu_check.layouts import DYNAMIC, Agreement, layouts, measure, small_family, values_apart
from tools.gpu_check.runner import environment
from tools.gpu_check.workers import VALUE, Settings, infer, make_worker

MARK = "LAYOUTS "
CPU = Machine(None, 0.0, vllm=False)
UNFUSED = {"gemma4": "no fused kernel supports its cap on logits"}
"""Families whose log-probs cannot be fused, and why; a run that asks for it is refused."""
VALUES = 1e-4
"""Largest allowed difference of a critic's value."""
COLUMNS = tuple(layouts(0, fused=True))


@dataclass(frozen=True)
class Found:
    """The differences between a family's layouts and single rows.

    Attributes:
        layouts: the differences between the policy and transformers, by layout.
        critic: the largest difference between the values of a packed critic and those of single
            rows, by row.
    """

    layouts: dict[str, Agreement]
    critic: list[float]

    def problems(self) -> list[str]:
        """Return the differences that are larger than float32 can explain."""
        found = [f"{way}: {text}" for way, each in self.layouts.items() for text in each.problems()]
        for number, apart in enumerate(self.critic, start=1):
            if not apart <= VALUES:
                found.append(
                    f"critic, row {number}: a value differs by {apart:.2g}, more than {VALUES:g}"
                )
        return found


def of_family(name: str, folder: Path) -> Found:
    """Measure the layouts of a family in this process."""
    made = small_family(name, CPU.device, folder)
    # several micro-batches of several rows
    tokens = max(max(made.lengths), int(0.6 * sum(made.lengths)))
    ways = layouts(tokens, fused=name not in UNFUSED)
    # before any worker packs, since verl changes the attention of classes permanently
    exact = infer(make_worker(made.path, Settings(lr=0.0), VALUE), made.batch).double()
    found = {way: measure(made, settings) for way, settings in ways.items()}
    return Found(found, values_apart(made, replace(ways[DYNAMIC], fused=None), exact))


def in_a_process(name: str, python: Path | str = sys.executable) -> Found:
    """Measure the layouts of a family in a separate process.

    Raises:
        RuntimeError: the process failed; the message contains the end of its log.
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
    ways = {way: Agreement(**numbers) for way, numbers in found["layouts"].items()}
    return Found(ways, found["critic"])


def cell(agreement: Agreement) -> str:
    """Return the largest difference of a log-prob, and how far the smallest cosine is from 1."""
    apart = max(0.0, 1 - min(agreement.cosines.values()))
    return f"{max(agreement.rows):.0e}, {apart:.0e}"


def row(name: str, found: Found) -> str:
    """Return a row of the table, in Markdown."""
    ways = found.layouts
    cells = [cell(ways[way]) if way in ways else f"refused: {UNFUSED[name]}" for way in COLUMNS]
    return f"| `{name}` | {' | '.join(cells)} | {max(found.critic):.0e} |"


def main(names: Sequence[str]) -> None:
    """Print a row for each family; differences that are too large go to standard error."""
    columns = ["family", *COLUMNS, "critic"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name in names or [family.name for family in families()]:
        found = in_a_process(get_family(name).name)
        print(row(name, found), flush=True)
        for problem in found.problems():
            print(f"{name}, {problem}", file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-this-process"]:
        print(MARK + json.dumps(asdict(of_family(sys.argv[2], Path(sys.argv[3])))))
    else:
        main(sys.argv[1:])
