"""Tries one case again: `python -m tests.faults CAMPAIGN --seed SEED --number NUMBER`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.faults.campaign import SEED, Case, find
from tests.faults.runner import attempt_in


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("campaign")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--number", type=int, required=True)
    options = parser.parse_args()
    campaign = find(options.campaign)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "inputs").mkdir()
        prepared = campaign.prepare(folder / "inputs")
        case = Case(campaign.name, options.seed, options.number)
        answer = attempt_in(campaign, prepared, (case,), folder / "case")
    verdict = answer[0] if isinstance(answer, list) else answer
    print(f"{verdict.fault or verdict.outcome}: {verdict.detail}")
    return int(verdict.fault is not None)


if __name__ == "__main__":
    raise SystemExit(main())
