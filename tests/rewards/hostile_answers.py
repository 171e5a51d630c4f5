"""Wrong answers in frames, none of which may be judged right.

They deny the gold, hedge, retract, relate something to it, or name another beside it.
`python -m tests.rewards.hostile_answers` prints those that are accepted.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass

from docagent_rl.rewards.rule_judge import RuleJudge
from tests.rewards.fair_answers import DATA, SLOT, FairGold, read_golds

OTHER_SLOT = "{y}"
"""The place of another gold of the kind in a frame."""
_ANSWERS = ("phrase", "number", "label")
"""Shapes of golds that a frame makes wrong; verdicts are denied in words of their own."""


@dataclass(frozen=True)
class Hostile:
    """An answer that is wrong for its gold."""

    question: str
    texts: tuple[str, ...]
    said: str

    @property
    def is_accepted(self) -> bool:
        return RuleJudge()._judge(self.question, self.texts, self.said) > 0.0

    def __str__(self) -> str:
        return f"{' | '.join(self.texts)!r} <- {self.said!r} [{self.question}]"


def read_hostile(prefix: str = "fair") -> Iterator[Hostile]:
    """Return every wrong answer: frames around the golds of `PREFIX_golds.jsonl`, and denials of
    verdicts.
    """
    frames = _rows("hostile_frames.jsonl")
    golds = [gold for gold in read_golds(prefix) if gold.shape in _ANSWERS]
    for gold in golds:
        other = _other(gold, golds)
        for frame in frames:
            if other is not gold and gold.shape in frame.get("shapes", _ANSWERS):
                said = frame["frame"].replace(SLOT, gold.said[0]).replace(OTHER_SLOT, other.said[0])
                yield Hostile(gold.question, gold.texts, said)
    for row in _rows("hostile_verdicts.jsonl"):
        yield Hostile(row["question"], (row["gold"],), row["said"])


def _other(gold: FairGold, golds: list[FairGold]) -> FairGold:
    """Return the next gold of the kind and shape, or else of the kind."""
    kin = [each for each in golds if (each.kind, each.shape) == (gold.kind, gold.shape)]
    if len(kin) == 1:
        kin = [each for each in golds if each.kind == gold.kind]
    return kin[(kin.index(gold) + 1) % len(kin)]


def _rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description="Wrong answers that the rule judge accepts.")
    parser.add_argument("--prefix", default="fair", help="of the golds in tests/rewards/data")
    answers = list(read_hostile(parser.parse_args().prefix))
    accepted = [answer for answer in answers if answer.is_accepted]
    print(*accepted, sep="\n")
    print(f"{len(accepted)} of {len(answers)} wrong answers are accepted")


if __name__ == "__main__":
    main()
