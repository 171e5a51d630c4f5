"""The task of MM-Doc-R1: search for a word, follow a link to another one, and read the total.

A search finds the page of a word, which either has a total or names another word to search for.
"""

from __future__ import annotations

import io
import random
from collections.abc import Mapping, Sequence

from reportlab.pdfgen.canvas import Canvas

from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample
from learning.pages import write_text
from learning.task import WORDS
from proof.tasks.base import Ablation, Part, ProofPage, Question, Sheet, Sizes, numbers, with_blanks
from trial import WriteTurn

LINKS = 6
"""The number of pages of a document that name another word; the other ten have totals."""
ASKED = 2
"""The number of questions of each kind about a document."""
DOCUMENTS = {Part.SFT: 120, Part.TRAIN: 120, Part.DEV: 16, Part.HELD_OUT: 40}

SIDE = 200.0
EMPTY = "Nothing is written here."
"""The text layer of a blank page, which needs one since this agent reads text."""
ONE_HOP = "one_hop"
TWO_HOP = "two_hop"


class MMDocTask:
    """The task of MM-Doc-R1."""

    system = "mm_doc_r1"
    recipe = "mm_doc_r1_qwen3_8b"
    sft_recipe = None
    ablations: Mapping[str, Ablation] = {
        "grpo": Ablation(
            (
                "algorithm.adv_estimator=trajectory_grpo",
                "docagent.advantage.options=null",
                "+docagent.advantage.options.std=none",
            )
        )
    }
    sizes = Sizes(sft_steps=200, sft_every=10, ceiling=0.35, steps=40)

    def sheets(self, seed: int) -> list[Sheet]:
        """Draw the documents; see `ProofTask`."""
        rng = random.Random(f"mm_doc_r1/{seed}")
        all_numbers, shared_numbers = numbers(rng)
        made = []
        for part, count in DOCUMENTS.items():
            pool = all_numbers if part is Part.HELD_OUT else shared_numbers
            for index in range(count):
                made.append(_sheet(f"{part.value}-{index:04d}", part, pool, rng))
        return with_blanks(made)

    def pdf(self, sheet: Sheet) -> bytes:
        """Draw a document as a PDF (see `ProofTask`); blank pages have the text layer `EMPTY`."""
        buffer = io.BytesIO()
        canvas = Canvas(buffer, pagesize=(SIDE, SIDE), invariant=1)
        for page in sheet.pages:
            text = EMPTY if sheet.part is Part.BLANK else page.word
            write_text(canvas, text, (4, SIDE / 2), "Helvetica", 8, visible=True)
            canvas.showPage()
        canvas.save()
        return buffer.getvalue()

    def player(self, sample: Sample, ablation: str | None = None) -> WriteTurn:
        """Return the script of a question; see `ProofTask`."""
        searches = [f'<search>["{word}"]</search>' for word in sample.extra["words"]]
        entry = f'{{"page_ids": [{sample.evidence_pages[0]}], "query": "total"}}'
        turns = [*searches, f"<read>[{entry}]</read>", "<FINISH>"]

        def write(trajectory: Trajectory) -> str:
            return turns[len(trajectory.turns)]

        return write


def _sheet(doc_id: str, part: Part, pool: Sequence[str], rng: random.Random) -> Sheet:
    words = rng.sample(WORDS, len(WORDS))
    linked = words[:LINKS]
    direct = words[LINKS:]
    target = dict(zip(linked, rng.sample(direct, LINKS), strict=True))
    totals = {word: rng.choice(pool) for word in direct}
    order = rng.sample(words, len(words))
    pages = tuple(
        ProofPage(
            _link(word, target[word]) if word in target else _total(word, totals[word]), (), SIDE
        )
        for word in order
    )
    chains: list[tuple[str, ...]] = [(word,) for word in rng.sample(direct, ASKED)]
    chains += [(word, target[word]) for word in rng.sample(linked, ASKED)]
    questions = tuple(
        Question(
            f"What is the final total of {chain[0]}?",
            totals[chain[-1]],
            (order.index(chain[-1]) + 1,),
            ONE_HOP if len(chain) == 1 else TWO_HOP,
            extra={"words": list(chain)},
        )
        for chain in chains
    )
    return Sheet(doc_id, part, pages, questions)


def _link(word: str, target: str) -> str:
    return f"{word}: see {target}."


def _total(word: str, number: str) -> str:
    # With more than six words, the extractor takes the number out of the sentence; it would return
    # a shorter text as a whole.
    return f"{word}: the final total of this page is {number}."


TASK = MMDocTask()
