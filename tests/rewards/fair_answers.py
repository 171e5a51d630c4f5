"""Right answers as models write them: frames around spellings of golds, as fair readers would
accept them.

`python -m tests.rewards.fair_answers` prints how many the rule judge refuses, by kind of gold and
by group of frames, and every frame that it refuses often. Frames and golds were written before its
rules for frames.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.rewards.rule_judge import RuleJudge

DATA = Path(__file__).parent / "data"
SLOT = "{x}"
"""The place of the answer in a frame."""

_PLAIN_GROUPS = frozenset({"bare", "marks", "data", "tags", "label", "box"})
_GROUPS = {
    # "It is yes" is no sentence, and neither is "Not answerable (page 3)"
    "verdict": _PLAIN_GROUPS | {"citation", "opening", "closing", "reasoned", "language"},
    "refusal": _PLAIN_GROUPS,
    "sentence": _PLAIN_GROUPS | {"reasoned"},
    # "Table 3 (Table 2)" says two
    "label": _PLAIN_GROUPS | {"reasoned"},
}
"""Groups of frames that stand around a gold of a shape; around others stand all."""


@dataclass(frozen=True)
class Frame:
    """The text that a model writes around an answer.

    Args:
        text: with the answer at `{x}`.
        group: how it frames.
        shape: of the golds that it fits; "any" fits all of its group.
        is_core: it is tried with every writing and every sentence.
        is_escaped: signs of LaTeX in the answer have a backslash.
    """

    text: str
    group: str
    shape: str = "any"
    is_core: bool = False
    is_escaped: bool = False

    def around(self, said: str) -> str:
        if self.is_escaped:
            said = said.replace("%", "\\%").replace("$", "\\$")
        return self.text.replace(SLOT, said)

    def fits(self, gold: "FairGold", said: str) -> bool:
        """Return whether a model might write the frame around this writing of the gold."""
        if "\n" in said:
            return self.text == SLOT or f"\n{SLOT}" in self.text
        if self.shape == "number" and gold.shape != "number":
            return False
        return gold.shape not in _GROUPS or self.group in _GROUPS[gold.shape]


@dataclass(frozen=True)
class FairGold:
    """A gold and its spellings.

    Args:
        kind: what the measurement is reported by.
        shape: what frames go by.
        question: that is asked.
        texts: the gold answers.
        said: writings of the answer, the first with all frames, others with core frames.
        own: sentences that say it in words of their own, with core frames.
    """

    kind: str
    shape: str
    question: str
    texts: tuple[str, ...]
    said: tuple[str, ...]
    own: tuple[str, ...]


@dataclass(frozen=True)
class Fair:
    """A right answer."""

    gold: FairGold
    frame: Frame
    text: str
    is_own: bool

    @property
    def is_refused(self) -> bool:
        return RuleJudge()._judge(self.gold.question, self.gold.texts, self.text) < 1.0

    def __str__(self) -> str:
        return (
            f"{self.gold.kind}: {' | '.join(self.gold.texts)!r} <- {self.text!r} "
            f"[{self.gold.question}]"
        )


def read_fair(prefix: str = "fair") -> list[Fair]:
    """Return every right answer of the files `PREFIX_frames.jsonl` and `PREFIX_golds.jsonl`."""
    frames = read_frames(prefix)
    return [fair for gold in read_golds(prefix) for fair in _framed(gold, frames)]


def read_frames(prefix: str = "fair") -> list[Frame]:
    """Return the frames of `PREFIX_frames.jsonl`."""
    return [
        Frame(
            row["frame"],
            row["group"],
            row.get("shape", "any"),
            row.get("core", False),
            row.get("escaped", False),
        )
        for row in _rows(f"{prefix}_frames.jsonl")
    ]


def read_golds(prefix: str = "fair") -> list[FairGold]:
    """Return the golds of `PREFIX_golds.jsonl`."""
    return [
        FairGold(
            row["kind"],
            row["shape"],
            row["question"],
            tuple(row["gold"]),
            tuple(row["said"]),
            tuple(row.get("own", ())),
        )
        for row in _rows(f"{prefix}_golds.jsonl")
    ]


def _rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def _framed(gold: FairGold, frames: Iterable[Frame]) -> Iterator[Fair]:
    first = gold.said[0]
    for frame in frames:
        for said in gold.said:
            if frame.fits(gold, said) and (frame.is_core or said == first):
                yield Fair(gold, frame, frame.around(said), is_own=False)
        for said in gold.own if frame.is_core else ():
            yield Fair(gold, frame, frame.around(said), is_own=True)


def refused_table(answers: Iterable[Fair]) -> str:
    """Return a Markdown table of the rejected answers by kind of gold."""
    return _table("kind of gold", answers, lambda fair: fair.gold.kind)


def _table(title: str, answers: Iterable[Fair], key: Callable[[Fair], str]) -> str:
    asked, refused = Counter[str](), Counter[str]()
    for fair in answers:
        missed = fair.is_refused
        for row in (key(fair), "**all**"):
            asked[row] += 1
            refused[row] += missed
    rows = [row for row in asked if row != "**all**"] + ["**all**"]
    lines = [f"| {title} | fair answers | refused | share |", "|---|---|---|---|"]
    lines += [
        f"| {row} | {asked[row]} | {refused[row]} | {refused[row] / asked[row]:.1%} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Right answers that the rule judge refuses.")
    parser.add_argument("--prefix", default="fair", help="of the two files in tests/rewards/data")
    parser.add_argument("--print", action="store_true", help="every answer that is refused")
    arguments = parser.parse_args()
    answers = read_fair(arguments.prefix)
    print(refused_table(answers))
    print(
        _table(
            "group of frames",
            answers,
            lambda fair: "own words" if fair.is_own else fair.frame.group,
        )
    )
    if arguments.print:
        for fair in answers:
            if fair.is_refused:
                print(fair)


if __name__ == "__main__":
    main()
