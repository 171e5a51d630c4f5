"""The task of Doc-V*: find the page of a colour in the overview, fetch it, and read its number."""

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
"""The number of pages of a document; the overview has 3 columns of 4."""
COLOURED = ("red", "yellow")
"""Each document has one page of each of these colours; the others are white."""
DOCUMENTS = {Part.SFT: 500, Part.TRAIN: 150, Part.DEV: 24, Part.HELD_OUT: 60}

BAND = 24.0
"""Height of the band at the top of a page, white or coloured, which has the page's own number.

It is 12 pixels high in the overview, where a page is one visual token, so that a token shows colour
and number together. Without the number, the model would have to count pictures to know that the
fourth one is page 4, which a model of two layers does not learn in minutes.
"""
PAGE_NUMBER_PT = 26.0
ANSWER_PT = 18.0
"""Font sizes. The answer is 6 pixels high in the overview, and 26 on a page that was fetched."""
FIELD = (0.0, BAND, SIDE_PT, SIDE_PT)
"""The white field below the band. Every page has a two-digit number there; questions ask for it."""
TEXT_LAYER = "A page."
"""The text layer of all pages. Since it is always the same, retrieval does not help."""
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
        """Draw the documents; see `ProofTask`."""
        rng = random.Random(f"doc_v_star/{seed}")
        all_numbers, shared_numbers = numbers(rng)
        made = []
        for part, count in DOCUMENTS.items():
            pool = all_numbers if part is Part.HELD_OUT else shared_numbers
            for index in range(count):
                made.append(_sheet(f"{part.value}-{index:04d}", part, pool, rng))
        return with_blanks(made)

    def pdf(self, sheet: Sheet) -> bytes:
        """Draw a document as a PDF; see `ProofTask`."""
        return draw_coloured(sheet)

    def player(self, sample: Sample, ablation: str | None = None) -> WriteTurn:
        """Return the script of a question (see `ProofTask`).

        Without an overview it cannot know the page, so it fetches a random one and reads that.
        """
        page = sample.evidence_pages[0]
        if ablation == NO_OVERVIEW:
            page = random.Random(sample.question_id).randint(1, sample.extra["num_pages"])
        number = sample.extra["numbers"][page - 1]

        def write(trajectory: Trajectory) -> str:
            return last_turn(page, number) if trajectory.turns else first_turn(page)

        return write


def first_turn(page: int) -> str:
    """Return a turn that fetches a page, and names it in the analysis."""
    thought = f"<analysis>{page}</analysis><plan>read</plan><summary>page</summary>"
    return f"<think>{thought}</think><action><fetch_page>[{page}]</fetch_page></action>"


def last_turn(page: int, answer: str) -> str:
    """Return a turn that says what it has read, names the relevant page and answers."""
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
