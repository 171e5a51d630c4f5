"""The labelled pairs that the rule judge is measured on.

`python -m tests.rewards.judge_pairs` prints its accuracy by kind, and what it gets wrong. Pairs
were written and labelled by hand, before the judge was.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from docagent_rl.rewards.rule_judge import RuleJudge

FILE = Path(__file__).parent / "data" / "judge_pairs.jsonl"


class Trap(StrEnum):
    """A reason why a wrong prediction may tempt a judge; none of these may win."""

    STUFFING = "stuffing"
    NEGATION = "negation"
    UNIT = "unit"


@dataclass(frozen=True)
class Pair:
    kind: str
    gold: tuple[str, ...]
    said: str
    right: bool
    question: str = ""
    trap: Trap | None = None

    @property
    def judged(self) -> bool:
        return asyncio.run(RuleJudge().judge(self.question, self.gold, self.said)) == 1.0

    def __str__(self) -> str:
        question = f"   [{self.question}]" if self.question else ""
        return (
            f"{self.kind}: {' | '.join(self.gold)!r} <- {self.said!r}{question}: right is "
            f"{self.right}"
        )


def read_pairs() -> list[Pair]:
    rows = [json.loads(line) for line in FILE.read_text().splitlines()]
    return [
        Pair(
            row["kind"],
            tuple(row["gold"]),
            row["said"],
            row["right"],
            row.get("question", ""),
            Trap(row["trap"]) if "trap" in row else None,
        )
        for row in rows
    ]


def wrong(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs on which judge and label differ."""
    return [pair for pair in pairs if pair.judged != pair.right]


def table(pairs: Iterable[Pair]) -> str:
    """Return the accuracy by kind as a Markdown table."""
    kinds: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        kinds[pair.kind].append(pair)
        kinds["**all**"].append(pair)
    kinds["**all**"] = kinds.pop("**all**")
    lines = ["| kind | pairs | right | wrong accepted | right refused |", "|---|---|---|---|---|"]
    for kind, members in kinds.items():
        missed = wrong(members)
        paid = sum(not pair.right for pair in missed)
        share = 1 - len(missed) / len(members)
        lines.append(f"| {kind} | {len(members)} | {share:.1%} | {paid} | {len(missed) - paid} |")
    return "\n".join(lines)


def main() -> None:
    pairs = read_pairs()
    print(table(pairs))
    for pair in wrong(pairs):
        print(pair)


if __name__ == "__main__":
    main()
