"""ALDEN's task: open a page by its number, which the question or a page found by a search names.

A document has twelve pages. Four have a word in the text layer, by which a search finds them, and
the number of another page in the picture. Eight have a two-digit number in the picture and no text
by which a search could find them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from learning.task import WORDS
from proof.tasks.base import (
    NO_WORD,
    Ablation,
    Painted,
    Part,
    ProofPage,
    Question,
    Sheet,
    Sizes,
    centre,
    draw,
    numbers,
    with_blanks,
)
from trial import WriteTurn

PAGES = 12
INDEX = 4
DOCUMENTS = {Part.SFT: 60, Part.TRAIN: 120, Part.DEV: 12, Part.HELD_OUT: 30}
PAGE_INDEX = "page_index"
TWO_HOP = "two_hop"
KINDS = (PAGE_INDEX, TWO_HOP)
"""The kinds of questions."""


@dataclass(frozen=True)
class AldenTask:
    """The task of ALDEN; see `ProofTask`."""

    system: str = "alden"
    recipe: str = "alden_qwen2_5_vl_7b"
    sft_recipe: str | None = None
    sizes: Sizes = field(
        default_factory=lambda: Sizes(sft_steps=200, sft_every=5, ceiling=0.25, steps=45)
    )
    ablations: Mapping[str, Ablation] = field(
        default_factory=lambda: {
            "outcome_only": Ablation(("+ablations=alden/outcome_only",)),
            "no_fetch": Ablation(("+ablations=alden/no_fetch",), own_warm_start=True),
        }
    )

    def sheets(self, seed: int) -> list[Sheet]:
        """Draw the documents (see `ProofTask`); each has as many questions of either kind."""
        rng = random.Random(f"alden/{seed}")
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

        Without fetching, it searches and answers, although no page that it can see has the answer.
        """
        way: list[str] = []
        if (word := sample.extra.get("word")) or ablation == "no_fetch":
            way.append(f"<search>{word or NO_WORD}</search>")
        if ablation != "no_fetch":
            way.append(f"<fetch>{sample.evidence_pages[0]}</fetch>")
        way.append(f"<answer>\\boxed{{{sample.answers[0]}}}</answer>")

        def write(trajectory: Trajectory) -> str:
            return f"<think></think>{way[len(trajectory.turns)]}"

        return write


def _sheet(doc_id: str, part: Part, pool: Sequence[str], rng: random.Random) -> Sheet:
    places = rng.sample(range(1, PAGES + 1), PAGES)
    index = sorted(places[:INDEX])
    content = sorted(places[INDEX:])
    number = {page: rng.choice(pool) for page in content}
    words = dict(zip(index, rng.sample(WORDS, INDEX), strict=True))
    target = dict(zip(index, rng.sample(content, INDEX), strict=True))
    pages = tuple(
        ProofPage(
            words.get(page, NO_WORD), (Painted(str(target.get(page) or number[page]), centre(rng)),)
        )
        for page in range(1, PAGES + 1)
    )
    asked = [
        Question(
            f"Which number is on the page of {words[page]}?",
            number[target[page]],
            (target[page],),
            TWO_HOP,
            extra={"word": words[page]},
        )
        for page in index
    ]
    asked += [
        Question(f"Which number is on page {page}?", number[page], (page,), PAGE_INDEX)
        for page in sorted(rng.sample(content, INDEX))
    ]
    return Sheet(doc_id, part, pages, tuple(asked))


TASK = AldenTask()
