"""A policy that two ranks train and save, or that one rank loads, for `test_runs.py`; the program
prints a report.
"""

from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.training import engines
from tests.training.workers.resharding_engine import resumed, saved, worker


def report(folder: Path) -> dict[str, Any]:
    """Save in a folder with two ranks, then compare with one rank."""
    two_ranks = torch.distributed.get_world_size() > 1
    model = folder / "text"
    if two_ranks:
        engines.once(engines.text_model, model)
    data = engines.with_numbers(engines.text_batch())
    make = partial(worker, model, "actor")
    if two_ranks:
        saved(make, data, folder / "checkpoint")
        return {}
    return resumed(make, data, folder / "checkpoint")


if __name__ == "__main__":
    engines.program(report)
