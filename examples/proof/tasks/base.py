"""A task: documents in disjoint parts, questions, and a script that answers them perfectly.

A task is a module `proof.tasks.<system>` with a `TASK`. It also needs two kinds of files:
`proof/recipe/<system>.yaml` is the overlay `+recipe=<system>`, which changes the system's recipe
after `+profile=cpu`. `proof/prompts/<system>*.yaml` are copied into `<workspace>/prompts/`
(`docagent.prompt: ${docagent.workspace}/prompts/<system>.yaml`).
"""

from __future__ import annotations

import dataclasses
import io
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.samples.sample import Box, Sample, Split
from learning.pages import FONT, SIDE_PT, SIZE_PT, write_text
from trial import WriteTurn

NO_WORD = "sheet"
"""The text layer of pages that no search should find."""


class Part(StrEnum):
    """A set of documents; no two parts share a document."""

    SFT = "sft"
    """The documents of the script's trajectories, for supervised training."""
    TRAIN = "train"
    """The documents of reinforcement learning."""
    DEV = "dev"
    """The documents that decide which checkpoint becomes the warm start."""
    HELD_OUT = "held_out"
    """The documents of the test before and after training."""
    BLANK = "blank"
    """The held-out documents with blank pages and the same text layers."""

    @property
    def dataset(self) -> str:
        """The `Sample.dataset` of the part's questions."""
        return f"proof_{self.value}"


@dataclass(frozen=True, slots=True)
class Painted:
    """A text in the picture of a page.

    Args:
        text: the text.
        at: the centre of the text, `(x, y)` in points from the upper left corner.
        size: the size of the font in points.
    """

    text: str
    at: tuple[float, float] = (SIDE_PT / 2, SIDE_PT / 2)
    size: float = SIZE_PT


@dataclass(frozen=True, slots=True)
class ProofPage:
    """The contents of a page, from which it is drawn.

    Args:
        word: the text layer, by which a search finds the page; invisible, as in a scan. If it were
            empty, OCR would read the painted texts, so a page that no search should find has
            `NO_WORD`.
        painted: the texts in the picture, which only a look at the page shows.
        side: width and height in points.
    """

    word: str
    painted: tuple[Painted, ...]
    side: float = SIDE_PT


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a document.

    Args:
        text: the question itself.
        answer: the right answer, which must be given exactly.
        evidence_pages: the pages that must be seen, from 1, ascending.
        kind: a name such as `two_hop`; results are also reported by kind.
        evidence_boxes: boxes by page, as fractions of width and height.
        extra: facts that the script needs.
    """

    text: str
    answer: str
    evidence_pages: tuple[int, ...]
    kind: str
    evidence_boxes: Mapping[int, tuple[Box, ...]] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sheet:
    """The contents of a document, from which it is drawn.

    Args:
        doc_id: the document's id.
        part: the part that it belongs to.
        pages: the pages, in order.
        questions: the questions about it.
    """

    doc_id: str
    part: Part
    pages: tuple[ProofPage, ...]
    questions: tuple[Question, ...]

    def samples(self) -> Iterator[Sample]:
        """Yield the document's questions as samples; `extra["kind"]` is the kind of a question."""
        split = Split.TRAIN if self.part in (Part.SFT, Part.TRAIN) else Split.VAL
        for number, question in enumerate(self.questions, start=1):
            name = f"{self.doc_id}-{number}"
            yield Sample(
                question_id=name,
                dataset=self.part.dataset,
                split=split,
                doc_id=self.doc_id,
                question=question.text,
                answers=(question.answer,),
                answer_format="string",
                evidence_pages=question.evidence_pages,
                evidence_boxes=dict(question.evidence_boxes),
                extra={
                    "gold": question.answer,
                    "num_pages": len(self.pages),
                    "native_id": name,
                    "row": 0,
                    "kind": question.kind,
                    **question.extra,
                },
            )


@dataclass(frozen=True, slots=True)
class Ablation:
    """An arm that lacks something which the full system has.

    Args:
        overrides: Hydra overrides, which come after all others.
        own_warm_start: whether the ablation changes what an agent can do or see. Then it has
            supervised trajectories (`ProofTask.player` gets its name) and a warm start of its own;
            otherwise it begins with that of the full system.
        steps: the number of steps of reinforcement learning; by default that of the task.
    """

    overrides: Sequence[str]
    own_warm_start: bool = False
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """The lengths of the stages of a unit.

    Args:
        sft_steps: the maximum number of steps of supervised training, with batches of 32 rows; the
            second half is skipped if the first one reaches the ceiling.
        sft_every: the number of steps between its checkpoints.
        ceiling: the warm start is the last checkpoint before this share of sampled answers on
            `Part.DEV` is right.
        steps: the number of steps of reinforcement learning.
        dev_trajectories: the number of trajectories sampled for each question of `Part.DEV`.
    """

    sft_steps: int = 140
    sft_every: int = 5
    ceiling: float = 0.25
    steps: int = 40
    dev_trajectories: int = 2

    def chose(self, warm_start: Mapping[str, Any]) -> bool:
        """Return whether a warm start is the one that these sizes lead to.

        `sft_steps` matters only if the ceiling was not reached in that many steps.
        """
        if any(warm_start.get(name) != getattr(self, name) for name in ("ceiling", "sft_every")):
            return False
        reached = max(warm_start["dev_accuracy"].values()) >= self.ceiling
        return reached or warm_start.get("sft_steps") == self.sft_steps


class ProofTask(Protocol):
    """The task of a system. The methods return the same results for the same arguments."""

    system: str
    """The system's name in the registry."""
    recipe: str
    """The recipe of reinforcement learning, such as `alden_qwen2_5_vl_7b`."""
    sft_recipe: str | None
    """The recipe of supervised training. `None` if the paper has no supervised stage; then
    `proof.plan.DEFAULT_SFT` is used.
    """
    ablations: Mapping[str, Ablation]
    """The ablations by name."""
    sizes: Sizes
    """The lengths of the stages."""

    def sheets(self, seed: int) -> list[Sheet]:
        """Return all documents; `Part.BLANK` repeats `Part.HELD_OUT` (`with_blanks`)."""
        ...

    def pdf(self, sheet: Sheet) -> bytes:
        """Draw a document as a PDF, with blank pages for `Part.BLANK` (`draw`)."""
        ...

    def player(self, sample: Sample, ablation: str | None = None) -> WriteTurn:
        """Return the script of a question.

        It is perfect, or as good as an ablation with its own warm start allows.
        """
        ...


def with_blanks(made: Sequence[Sheet]) -> list[Sheet]:
    """Return the documents, followed by copies of the held-out ones as `Part.BLANK`."""
    blank = [
        dataclasses.replace(
            sheet, doc_id=sheet.doc_id.replace(Part.HELD_OUT, Part.BLANK), part=Part.BLANK
        )
        for sheet in made
        if sheet.part is Part.HELD_OUT
    ]
    return [*made, *blank]


def draw(sheet: Sheet) -> bytes:
    """Draw a document as a PDF; the same pages give the same bytes.

    Nothing is painted on the pages of `Part.BLANK`.
    """
    buffer = io.BytesIO()
    canvas = Canvas(buffer, invariant=1)
    visible = sheet.part is not Part.BLANK
    for page in sheet.pages:
        canvas.setPageSize((page.side, page.side))
        write_text(canvas, page.word, (2, page.side - 8), "Helvetica", 6, visible=False)
        for mark in page.painted:
            left = mark.at[0] - stringWidth(mark.text, FONT, mark.size) / 2
            # the height of a digit is about 0.72 of the size
            baseline = page.side - mark.at[1] - 0.36 * mark.size
            write_text(canvas, mark.text, (left, baseline), FONT, mark.size, visible=visible)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def centre(rng: random.Random, side: float = SIDE_PT, shift: float = 1.5) -> tuple[float, float]:
    """Return the centre of a page, shifted at random by at most `shift` points in x and y."""
    x, y = (round(side / 2 + rng.uniform(-shift, shift), 2) for _ in range(2))
    return x, y


def numbers(rng: random.Random, unseen: float = 0.2) -> tuple[list[str], list[str]]:
    """Return all two-digit numbers, shuffled, and those among them that every part may show.

    The share `unseen` of all numbers is reserved for `Part.HELD_OUT`.
    """
    everything = [str(number) for number in range(10, 100)]
    rng.shuffle(everything)
    return everything, everything[round(unseen * len(everything)) :]
