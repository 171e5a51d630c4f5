"""Doc-V*: the overview tells which page has the colour that is asked for; its number has to be
fetched.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from learning.pages import SIDE_PT
from proof.tasks.base import (
    Ablation,
    Painted,
    Part,
    Question,
    Sheet,
    Sizes,
    centre,
    numbers,
    with_blanks,
)
from proof.tasks.coloured import WHITE, ColouredPage, draw_coloured
from trial import WriteTurn

PAGES = 12
"""Pages of a document, 3 columns of 4 in the overview."""
COLOURED = ("red", "yellow")
"""A page of each in a document; the others are white."""
DOCUMENTS = {Part.SFT: 500, Part.TRAIN: 150, Part.DEV: 24, Part.HELD_OUT: 60}

BAND = 24.0
"""Height of the band at the top of a page, white or coloured, with the page's own number: 12 pixels
in the overview, where a page is one visual token, so that colour and number are seen together. That
the fourth picture is page 4 would have to be counted, which a model of two layers does not find out
in minutes.
"""
PAGE_NUMBER_PT = 26.0
ANSWER_PT = 18.0
"""Sizes: the answer is 6 pixels high in the overview and 26 on a page that was fetched."""
FIELD = (0.0, BAND, SIDE_PT, SIDE_PT)
"""White below it; the number that is asked for is there on every page."""
TEXT_LAYER = "A page."
"""The same on all pages: a retrieval tells nothing."""
OVERVIEW = "overview"
NO_OVERVIEW = "no_overview"


class DocVStarTask:
    """The task of Doc-V*."""

    system = "doc_v_star"
    recipe = "doc_v_star_qwen2_5_vl_7b"
    sft_recipe = "sft_doc_v_star_qwen2_5_vl_7b"
    ablations: Mapping[str, Ablation] = {
        NO_OVERVIEW: Ablation(("docagent.env.overview.enabled=false",), own_warm_start=True)
    }
    sizes = Sizes(sft_steps=800, sft_every=20, ceiling=0.25, steps=60)

    def sheets(self, seed: int) -> list[Sheet]:
        """See `ProofTask`."""
        rng = random.Random(f"doc_v_star/{seed}")
        everything, seen = numbers(rng)
        made = [
            _sheet(
                f"{part.value}-{index:04d}",
                part,
                everything if part is Part.HELD_OUT else seen,
                rng,
            )
            for part, count in DOCUMENTS.items()
            for index in range(count)
        ]
        return with_blanks(made)

    def pdf(self, sheet: Sheet) -> bytes:
        """See `ProofTask`."""
        return draw_coloured(sheet)

    def player(self, sample: Sample, ablation: str | None = None) -> WriteTurn:
        """See `ProofTask`; without an overview nothing tells the page, so that it fetches and reads
        any.
        """
        page = sample.evidence_pages[0]
        if ablation == NO_OVERVIEW:
            page = random.Random(sample.question_id).randint(1, sample.extra["num_pages"])
        number = sample.extra["numbers"][page - 1]

        def write(trajectory: Trajectory) -> str:
            return last_turn(page, number) if trajectory.turns else first_turn(page)

        return write


def first_turn(page: int) -> str:
    """Fetches a page, which it names as soon as it has looked."""
    thought = f"<analysis>{page}</analysis><plan>read</plan><summary>page</summary>"
    return f"<think>{thought}</think><action><fetch_page>[{page}]</fetch_page></action>"


def last_turn(page: int, answer: str) -> str:
    """Says what it has read, names the page and answers."""
    relevant = f"<relevant_pages>[{page}]</relevant_pages>"
    thought = f"<analysis>{answer}</analysis>{relevant}<summary>page</summary>"
    return f"<think>{thought}</think><action><answer>{answer}</answer></action>"


def _sheet(doc_id: str, part: Part, pool: list[str], rng: random.Random) -> Sheet:
    colours = dict(zip(rng.sample(range(PAGES), len(COLOURED)), COLOURED, strict=True))
    pages = tuple(
        ColouredPage(
            TEXT_LAYER,
            (_page_number(index + 1), Painted(rng.choice(pool), _below(centre(rng)), ANSWER_PT)),
            colour=colours.get(index, WHITE),
            field=FIELD,
        )
        for index in range(PAGES)
    )
    shown = [page.painted[1].text for page in pages]
    questions = tuple(
        Question(
            f"Which number is below the {colour} band?",
            shown[index],
            (index + 1,),
            OVERVIEW,
            extra={"numbers": shown},
        )
        for index, colour in sorted(colours.items())
    )
    return Sheet(doc_id, part, pages, questions)


def _page_number(number: int) -> Painted:
    return Painted(str(number), (SIDE_PT / 2, BAND / 2), PAGE_NUMBER_PT)


def _below(at: tuple[float, float]) -> tuple[float, float]:
    """Return a point in the middle of the field instead of the page."""
    return at[0], round(at[1] + BAND / 2, 2)


TASK = DocVStarTask()
