"""A task: drawn documents in disjoint parts, questions, and the script that plays them perfectly.

A task is a module `proof.tasks.<system>` with a `TASK`. Beside it lie `proof/recipe/<system>.yaml`,
the overlay `+recipe=<system>` of the system's recipe behind `+profile=cpu`, and
`proof/prompts/<system>*.yaml`, which are copied into `<workspace>/prompts/`
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
"""Text layer of pages that no question asks for by a word."""


class Part(StrEnum):
    """Disjoint sets of documents."""

    SFT = "sft"
    """Played by the script."""
    TRAIN = "train"
    """Played by the policy in training."""
    DEV = "dev"
    """Tells when the warm start has to stop."""
    HELD_OUT = "held_out"
    """Measured before and after."""
    BLANK = "blank"
    """The held-out documents on white paper: same text layers."""

    @property
    def dataset(self) -> str:
        """`Sample.dataset` of its questions."""
        return f"proof_{self.value}"


@dataclass(frozen=True, slots=True)
class Painted:
    """A text in the picture of a page.

    Args:
        text: what is painted.
        at: its centre, `(x, y)` in points from the upper left corner.
        size: of the font in points.
    """

    text: str
    at: tuple[float, float] = (SIDE_PT / 2, SIDE_PT / 2)
    size: float = SIZE_PT


@dataclass(frozen=True, slots=True)
class ProofPage:
    """A page before it is drawn.

    Args:
        word: its text layer, invisible as in a scan; what a search finds. Never empty, or OCR would
            read what is painted: `NO_WORD` for a page that no search is to find.
        painted: what only looking tells.
        side: width and height in points.
    """

    word: str
    painted: tuple[Painted, ...]
    side: float = SIDE_PT


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a document.

    Args:
        text: of the question.
        answer: right when it is given exactly.
        evidence_pages: pages that have to be seen, from 1, ascending.
        kind: such as `two_hop`; results are also told by kind.
        evidence_boxes: by page, as fractions of width and height.
        extra: what the script needs to know.
    """

    text: str
    answer: str
    evidence_pages: tuple[int, ...]
    kind: str
    evidence_boxes: Mapping[int, tuple[Box, ...]] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sheet:
    """A document before it is drawn.

    Args:
        doc_id: its name.
        part: where it belongs.
        pages: in order.
        questions: about it.
    """

    doc_id: str
    part: Part
    pages: tuple[ProofPage, ...]
    questions: tuple[Question, ...]

    def samples(self) -> Iterator[Sample]:
        """Its questions as canonical samples; `extra["kind"]` is the kind of a question."""
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
    """A run without something.

    Args:
        overrides: of Hydra, after all others.
        own_warm_start: it changes what an agent can do or sees, so that it has its own supervised
            trajectories (`ProofTask.player` is told the ablation) and its own warm start; otherwise
            it begins where the full system does.
        steps: of reinforcement learning; by default those of the task.
    """

    overrides: Sequence[str]
    own_warm_start: bool = False
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lengths of the stages of a unit.

    Args:
        sft_steps: most steps of supervised training, batches of 32 rows; the second half is spared
            if the first one reaches the ceiling.
        sft_every: steps between its checkpoints.
        ceiling: the warm start is the last checkpoint before sampled answers about `Part.DEV` are
            right this often.
        steps: steps of reinforcement learning.
        dev_trajectories: sampled trajectories of each question of `Part.DEV`.
    """

    sft_steps: int = 140
    sft_every: int = 5
    ceiling: float = 0.25
    steps: int = 40
    dev_trajectories: int = 2

    def chose(self, warm_start: Mapping[str, Any]) -> bool:
        """Return whether a warm start is the one that these sizes lead to.

        How many steps there could have been matters only where they were too few for the ceiling.
        """
        if any(warm_start.get(name) != getattr(self, name) for name in ("ceiling", "sft_every")):
            return False
        reached = max(warm_start["dev_accuracy"].values()) >= self.ceiling
        return reached or warm_start.get("sft_steps") == self.sft_steps


class ProofTask(Protocol):
    """The task of a system. Everything is a function of the arguments."""

    system: str
    """Name in the registry."""
    recipe: str
    """Recipe of reinforcement learning, such as `alden_qwen2_5_vl_7b`."""
    sft_recipe: str | None
    """Recipe of supervised training; `None` for papers without: then `base: sft` with the system's
    model.
    """
    ablations: Mapping[str, Ablation]
    """By name."""
    sizes: Sizes

    def sheets(self, seed: int) -> list[Sheet]:
        """All documents; `Part.BLANK` repeats `Part.HELD_OUT` (`with_blanks`)."""
        ...

    def pdf(self, sheet: Sheet) -> bytes:
        """A document drawn; white for `Part.BLANK` (`draw`)."""
        ...

    def player(self, sample: Sample, ablation: str | None = None) -> WriteTurn:
        """Return a player that is perfect, or as good as an ablation with its own warm start
        allows.
        """
        ...


def with_blanks(made: Sequence[Sheet]) -> list[Sheet]:
    """The documents, and those held out once more as `Part.BLANK`."""
    blank = [
        dataclasses.replace(
            sheet, doc_id=sheet.doc_id.replace(Part.HELD_OUT, Part.BLANK), part=Part.BLANK
        )
        for sheet in made
        if sheet.part is Part.HELD_OUT
    ]
    return [*made, *blank]


def draw(sheet: Sheet) -> bytes:
    """The PDF of a document; the same pages give the same bytes. Of `Part.BLANK` the paper stays
    white.
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
    """The middle of a page, moved a little in both directions."""
    x, y = (round(side / 2 + rng.uniform(-shift, shift), 2) for _ in range(2))
    return x, y


def numbers(rng: random.Random, unseen: float = 0.2) -> tuple[list[str], list[str]]:
    """All numbers of two digits, shuffled, and those that every part may show.

    A share of all is for `Part.HELD_OUT` alone.
    """
    everything = [str(number) for number in range(10, 100)]
    rng.shuffle(everything)
    return everything, everything[round(unseen * len(everything)) :]
