"""The task of UniDoc-RL: search, select one of three pages by colour, and magnify its number."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from learning.task import WORDS
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
from proof.tasks.coloured import ColouredPage, draw_coloured
from trial import WriteTurn

TOPICS = 4
"""The number of words of a document; each word is on as many pages as a search shows."""
CHOSEN = ("red", "green", "blue")
"""The colours of the pages of a word."""
CANDIDATES = len(CHOSEN)
"""The number of pages that a search shows."""
DOCUMENTS = {Part.SFT: 250, Part.TRAIN: 100, Part.DEV: 16, Part.HELD_OUT: 40}

SIDE = 112.0
"""The side of a page in points: 224 pixels at 144 dpi. The page is shown with 112 pixels, and a
quarter of it is magnified to twice its size.
"""
SHOWN = 112
"""The side of a page in pixels as it is shown."""
HALF = 0.5
CROP = "crop"


class UniDocTask:
    """The task of UniDoc-RL."""

    system = "unidoc_rl"
    recipe = "unidoc_rl_qwen2_5_vl_7b"
    sft_recipe = "sft_unidoc_rl_qwen2_5_vl_7b"
    ablations: Mapping[str, Ablation] = {
        "reward_vanilla": Ablation(
            (
                "docagent.env.reward.weights.search_ndcg=0",
                "docagent.env.reward.weights.select=0",
                "docagent.env.reward.weights.roi=0",
            )
        )
    }
    sizes = Sizes(sft_steps=960, sft_every=20, ceiling=0.45, steps=60)

    def sheets(self, seed: int) -> list[Sheet]:
        """Draw the documents; see `ProofTask`."""
        rng = random.Random(f"unidoc_rl/{seed}")
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
        """Return the script of a question; see `ProofTask`."""
        page, box = next(iter(sample.evidence_boxes.items()))
        corners = [round(SHOWN * side) for side in box[0]]
        answer = sample.answers[0]

        def write(trajectory: Trajectory) -> str:
            match len(trajectory.turns):
                case 0:
                    return f"<search>{sample.extra['word']}</search>"
                case 1:
                    return f"<select>{shown_pages(trajectory).index(page)}</select>"
                case 2:
                    return f"<bbox>[{corners}]</bbox>"
            return f"<information>{answer}</information><answer>{answer}</answer>"

        return write


def shown_pages(trajectory: Trajectory) -> list[int]:
    """Return the page numbers of the candidates that the last turn, a search, found."""
    return [shown.page.page for shown in trajectory.turns[-1].record.effect.brought]


def _sheet(doc_id: str, part: Part, pool: Sequence[str], rng: random.Random) -> Sheet:
    """Draw a document: for each word three pages in three colours, all in random order."""
    words = rng.sample(WORDS, TOPICS)
    plan = [(word, colour) for word in words for colour in CHOSEN]
    rng.shuffle(plan)
    pages = []
    quarters = []
    for word, colour in plan:
        quarter = rng.randrange(2) * HALF, rng.randrange(2) * HALF
        quarters.append(quarter)
        pages.append(_page(word, colour, rng.choice(pool), quarter, rng))

    questions = []
    for word in words:
        # one of the three pages of the word
        indices = [index for index, (page_word, _colour) in enumerate(plan) if page_word == word]
        index = rng.choice(indices)
        left, top = quarters[index]
        questions.append(
            Question(
                f"Which number is on the {plan[index][1]} page about {word}?",
                pages[index].painted[0].text,
                (index + 1,),
                CROP,
                evidence_boxes={index + 1: ((left, top, left + HALF, top + HALF),)},
                extra={"word": word},
            )
        )
    return Sheet(doc_id, part, tuple(pages), tuple(questions))


def _page(
    word: str, colour: str, number: str, quarter: tuple[float, float], rng: random.Random
) -> ColouredPage:
    left, top = (SIDE * part for part in quarter)
    x, y = centre(rng, SIDE * HALF)
    return ColouredPage(
        word,
        (Painted(number, (left + x, top + y)),),
        side=SIDE,
        colour=colour,
        field=(left, top, left + SIDE * HALF, top + SIDE * HALF),
    )


TASK = UniDocTask()
