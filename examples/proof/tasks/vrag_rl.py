"""VRAG-RL's task: find a page by its word, magnify the right corner, and read its number.

A document has ten pages. A page has a word, by which a search finds it, and in each corner a
two-digit number that is too small to read unless the corner is magnified.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from learning.task import WORDS
from proof.tasks.base import (
    Ablation,
    Painted,
    Part,
    ProofPage,
    Question,
    Sheet,
    Sizes,
    draw,
    numbers,
    with_blanks,
)
from trial import WriteTurn

PAGES = 10
ASKED = 5
SIDE = 224.0
CELL = 56.0
SHOWN = 112
"""The side of a page (`SIDE`) and of a corner (`CELL`) in points, and the side in pixels (`SHOWN`)
at which a page or a magnified corner is shown.
"""
SIZE = 18.0
"""The size of the font: 9 pixels on the shown page, 36 on a magnified corner."""
DOCUMENTS = {Part.SFT: 80, Part.TRAIN: 120, Part.DEV: 16, Part.HELD_OUT: 30}
CORNERS = {"top left": (0, 0), "top right": (1, 0), "bottom left": (0, 1), "bottom right": (1, 1)}
"""The column and row of each corner by its name."""
KIND = "corner"


@dataclass(frozen=True)
class VragTask:
    """The task of VRAG-RL; see `ProofTask`."""

    system: str = "vrag_rl"
    recipe: str = "vrag_rl_qwen2_5_vl_7b"
    sft_recipe: str | None = "sft_vrag_rl_qwen2_5_vl_7b"
    sizes: Sizes = field(
        default_factory=lambda: Sizes(sft_steps=200, sft_every=5, ceiling=0.25, steps=60)
    )
    ablations: Mapping[str, Ablation] = field(
        default_factory=lambda: {
            "no_crop": Ablation(("+ablations=vrag_rl/no_crop",), own_warm_start=True),
            "outcome_only": Ablation(("+ablations=vrag_rl/reward_outcome_only",)),
        }
    )

    def sheets(self, seed: int) -> list[Sheet]:
        """Draw the documents; see `ProofTask`."""
        rng = random.Random(f"vrag_rl/{seed}")
        all_numbers, shared_numbers = numbers(rng)
        made = []
        for part, documents in DOCUMENTS.items():
            pool = all_numbers if part is Part.HELD_OUT else shared_numbers
            made += [
                _sheet(f"{part.value}-{index:04d}", part, pool, rng) for index in range(documents)
            ]
        return with_blanks(made)

    def pdf(self, sheet: Sheet) -> bytes:
        """Draw a document as a PDF; see `ProofTask`."""
        return draw(sheet)

    def player(self, sample: Sample, ablation: str | None = None) -> WriteTurn:
        """Return the script of a question (see `ProofTask`).

        Without zooming, it answers after seeing the page alone.
        """
        way = [f"<search>{sample.extra['word']}</search>"]
        if ablation != "no_crop":
            way.append(f"<bbox>[{', '.join(map(str, sample.extra['box']))}]</bbox>")
        way.append(f"<answer>{sample.answers[0]}</answer>")

        def write(trajectory: Trajectory) -> str:
            return way[len(trajectory.turns)]

        return write


def _sheet(doc_id: str, part: Part, pool: Sequence[str], rng: random.Random) -> Sheet:
    words = rng.sample(WORDS, PAGES)
    found = [{name: rng.choice(pool) for name in CORNERS} for _ in range(PAGES)]
    pages = tuple(
        ProofPage(
            word, tuple(_mark(number, CORNERS[name], rng) for name, number in each.items()), SIDE
        )
        for word, each in zip(words, found, strict=True)
    )
    asked = []
    for page in sorted(rng.sample(range(PAGES), ASKED)):
        name = rng.choice(list(CORNERS))
        asked.append(
            Question(
                f"Which number is at the {name} of {words[page]}?",
                found[page][name],
                (page + 1,),
                KIND,
                evidence_boxes={page + 1: (_fractions(CORNERS[name]),)},
                extra={"word": words[page], "box": _box(CORNERS[name])},
            )
        )
    return Sheet(doc_id, part, pages, tuple(asked))


def _mark(number: str, corner: tuple[int, int], rng: random.Random) -> Painted:
    x, y = (CELL / 2 + (SIDE - CELL) * place + rng.uniform(-2, 2) for place in corner)
    return Painted(number, (round(x, 2), round(y, 2)), SIZE)


def _box(corner: tuple[int, int]) -> list[int]:
    """Return the box of a corner in pixels of the shown page."""
    scale = SHOWN / SIDE
    left, top = (int((SIDE - CELL) * place * scale) for place in corner)
    return [left, top, left + int(CELL * scale), top + int(CELL * scale)]


def _fractions(corner: tuple[int, int]) -> tuple[float, float, float, float]:
    left, top = ((SIDE - CELL) * place / SIDE for place in corner)
    return (left, top, left + CELL / SIDE, top + CELL / SIDE)


TASK = VragTask()
