"""The table of what was tried."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.faults.campaign import Campaign, Case
from tests.faults.verdict import Outcome, Verdict

TABLE = "faults.md"


@dataclass(frozen=True, slots=True)
class Row:
    """A campaign's counts; `faults` holds a text for each bad case."""

    campaign: str
    what: str
    tried: int
    refused: int
    right: int
    faults: tuple[str, ...] = ()

    @classmethod
    def of(cls, campaign: Campaign, results: Sequence[tuple[Case, Verdict]]) -> Row:
        counts = Counter(verdict.outcome for _, verdict in results)
        faults = tuple(told(case, verdict) for case, verdict in results if verdict.fault is not None)
        refused, right = counts[Outcome.REFUSED], counts[Outcome.RIGHT]
        return cls(campaign.name, campaign.what, len(results), refused, right, faults)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.campaign}.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def told(case: Case, verdict: Verdict) -> str:
    """A bad case in words, with what tries it alone."""
    return f"{verdict.fault}: {verdict.detail}\n    {case.command()}"


def read_rows(folder: Path) -> list[Row]:
    return [Row(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]


def markdown(rows: Iterable[Row]) -> str:
    lines = [
        "| campaign | what is damaged | tried | refused with a clear error | survived and right | bad |",
        "|---|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.campaign} | {row.what} | {row.tried} | {row.refused} | {row.right} | {len(row.faults)} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"
