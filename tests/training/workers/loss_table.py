"""`python -m tests.training.workers.loss_table` prints the largest differences of losses from
float64 as a table.

Each mean with each kind of row that is left out, on one rank and on two, over all cuts into
micro-batches and mini-batches; takes minutes.
"""

import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.training.ranks import last_report
from tools.gpu_check.loss_batches import MASKS
from tools.gpu_check.loss_reference import MODES, TRAJECTORY, TURN

RANKS = (1, 2)


def table() -> list[str]:
    """Return lines of Markdown: one mean per row, one kind of left-out rows per column, `one rank /
    two ranks`.
    """
    os.environ["LOSS_CASES"] = "all"
    largest: dict[tuple[str, str, int], float] = defaultdict(float)
    cases = 0
    for ranks in RANKS:
        with tempfile.TemporaryDirectory() as folder:
            found = last_report(
                Path(sys.executable), "tests.training.workers.loss_engine", Path(folder), ranks
            )
        for name, differences in found["differences"].items():
            kind, mode, masks, _ = name.split("|")
            if masks not in MASKS:
                continue
            place = f"{kind}, `{mode}`", masks, ranks
            largest[place] = max(largest[place], *differences.values())
            cases += 1
    lines = [f"{cases} cases", "", f"| loss | {' | '.join(MASKS)} |", f"|---|{'---|' * len(MASKS)}"]
    policy = [f"policy, `{mode}`" for mode in (*MODES, TRAJECTORY, TURN)]
    for row in (*policy, *(f"critic, `{mode}`" for mode in MODES)):
        cells = [
            " / ".join(f"{largest[row, masks, ranks]:.0e}" for ranks in RANKS) for masks in MASKS
        ]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
