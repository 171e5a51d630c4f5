"""Make the task: find the page of a word among a document's pages, and read the number on it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.tiny.demo import build_demo_index, shuffled_samples
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.samples.parquet import write_parquet
from docagent_rl.samples.sample import Sample, Split
from learning.oracle import EXTRA_WORD
from learning.pages import NumberPage, number_pages_pdf

WORDS = ("revenue", "income", "profit", "cost", "energy", "water", "traffic", "market",
         "school", "hospital", "network", "survey", "model", "region", "student",
         "team")  # fmt: skip
"""The words of pages; the pages of a document have different ones."""

SYSTEM = "vrag_rl"
NUMBER_PAGES = Path(__file__).parent / "recipe" / "number_pages.yaml"
"""The file of `+recipe=number_pages`, with what the task adds to a recipe of the system."""

_SEED_PREFIX = "plates"
"""The beginning of every seed. With another word, the pages would not be those of the results in
docs/learning.md and docs/anchoring.md.
"""


class Part(StrEnum):
    """A set of documents; no two parts share a document."""

    SFT = "sft"
    """The documents of the oracle's trajectories, for supervised training."""
    TRAIN = "train"
    """The documents of reinforcement learning."""
    DEV = "dev"
    """The documents that decide which checkpoint becomes the warm start."""
    HELD_OUT = "held_out"
    """The documents of the test before and after training. Some of their numbers are on no page of
    another part.
    """
    BLANK = "blank"
    """The held-out documents with blank pages."""

    @property
    def dataset(self) -> str:
        """The `Sample.dataset` of the part's questions, by which verl reports validations."""
        return f"numbers_{self.value}"


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Sizes of the task.

    Args:
        digits: the number of digits of a number, 1 to 3.
        pages: the number of pages of a document.
        sft: the number of documents of `Part.SFT`.
        train: the number of documents of `Part.TRAIN`.
        dev: the number of documents of `Part.DEV`.
        held_out: the number of documents of `Part.HELD_OUT`, and of `Part.BLANK`.
        shift: the largest offset of a number from the centre, in points.
        unseen: the share of all numbers that only `Part.HELD_OUT` shows.
        seed: the seed of everything random.
    """

    digits: int = 2
    pages: int = 4
    sft: int = 100
    train: int = 200
    dev: int = 16
    held_out: int = 50
    shift: float = 1.5
    unseen: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 3:
            raise UserError(f"digits={self.digits}: expected 1 to 3, which fit a page")
        if not 1 <= self.pages <= len(WORDS):
            raise UserError(
                f"pages={self.pages}: expected 1 to {len(WORDS)}, one for each known word"
            )

    def documents(self, part: Part) -> int:
        """Return the number of documents of a part."""
        return self.held_out if part is Part.BLANK else int(getattr(self, part.value))


@dataclass(frozen=True, slots=True)
class TaskPaths(DemoPaths):
    """The paths of a workspace with the task; `data` takes a `Part`."""

    @property
    def prompt(self) -> Path:
        """The prompt file."""
        return self.workspace / "prompt.yaml"


@dataclass(frozen=True, slots=True)
class Sheet:
    """The contents of a document, from which it is drawn."""

    doc_id: str
    part: Part
    pages: tuple[NumberPage, ...]

    def samples(self) -> Iterator[Sample]:
        """Yield one question for each page."""
        split = Split.TRAIN if self.part in (Part.SFT, Part.TRAIN) else Split.VAL
        for number, page in enumerate(self.pages, start=1):
            yield Sample(
                question_id=f"{self.doc_id}-{number}",
                dataset=self.part.dataset,
                split=split,
                doc_id=self.doc_id,
                question=f"Which number is on the page {page.word}?",
                answers=(page.number,),
                answer_format="string",
                evidence_pages=(number,),
                extra={
                    "gold": page.number,
                    "num_pages": len(self.pages),
                    "native_id": f"{self.doc_id}-{number}",
                    "row": 0,
                    EXTRA_WORD: page.word,
                },
            )


def sheets(settings: TaskSettings) -> list[Sheet]:
    """Return all documents of the task, the same for the same settings."""
    rng = random.Random(f"{_SEED_PREFIX}/{settings.seed}")
    all_numbers, shared_numbers = _numbers(settings, rng)
    made = []
    for part in (Part.SFT, Part.TRAIN, Part.DEV, Part.HELD_OUT):
        pool = all_numbers if part is Part.HELD_OUT else shared_numbers
        for index in range(settings.documents(part)):
            pages = tuple(
                NumberPage(word, rng.choice(pool), _shift(settings, rng))
                for word in rng.sample(WORDS, settings.pages)
            )
            made.append(Sheet(f"{part.value}-{index:04d}", part, pages))
    blank = [
        dataclasses.replace(
            sheet, doc_id=sheet.doc_id.replace(Part.HELD_OUT, Part.BLANK), part=Part.BLANK
        )
        for sheet in made
        if sheet.part is Part.HELD_OUT
    ]
    return made + blank


def make_task(workspace: Path, settings: TaskSettings, *, progress: bool = False) -> TaskPaths:
    """Draw, ingest and index all documents, and write the questions; an existing task is reused.

    Raises:
        UserError: the workspace holds a task with other settings.
    """
    paths = TaskPaths(workspace)
    drawn = sheets(settings)
    stamp = workspace / "task.txt"
    if stamp.is_file():
        if stamp.read_text(encoding="utf-8") != f"{settings}\n":
            raise UserError(
                f"{workspace} holds another task; choose another folder or remove this one"
            )
        return paths
    for sheet in drawn:
        atomic_write(
            paths.pdfs / f"{sheet.doc_id}.pdf",
            number_pages_pdf(sheet.pages, blank=sheet.part is Part.BLANK),
        )
    ingest(
        paths.pdfs,
        paths.store,
        settings=RenderSettings(dpi=144),
        workers=1,
        progress=progress,
        strict=True,
    )
    build_demo_index(DocumentStore(paths.store), paths.index)
    for part in Part:
        write_parquet(_shuffled(drawn, part, settings.seed), paths.data(part))
    write_prompt(paths)
    atomic_write(stamp, f"{settings}\n")
    return paths


def task_section(paths: TaskPaths) -> dict[str, Any]:
    """Return the section `docagent` of the recipe over a workspace, for use outside a trainer."""
    recipe = OmegaConf.load(NUMBER_PAGES).docagent
    return {
        "system": SYSTEM,
        "workspace": paths.workspace,
        "run_dir": paths.workspace / "run",
        "store": paths.store,
        "retriever": {"index": paths.index},
        "judge": OmegaConf.to_container(recipe.judge),
        "env": OmegaConf.to_container(OmegaConf.merge(recipe.env, recipe.env_cpu)),
        "prompt": paths.prompt,
    }


def write_prompt(paths: TaskPaths) -> Path:
    """Write the prompt of the task into its folder."""
    return atomic_write(paths.prompt, Path(__file__).with_name("prompt.yaml").read_bytes())


def _shuffled(drawn: Sequence[Sheet], part: Part, seed: int) -> list[Sample]:
    samples = [sample for sheet in drawn if sheet.part is part for sample in sheet.samples()]
    return shuffled_samples(samples, f"{_SEED_PREFIX}/{seed}/{part.value}")


def _numbers(settings: TaskSettings, rng: random.Random) -> tuple[list[str], list[str]]:
    """Return all numbers, and those that every part may show."""
    low = 10 ** (settings.digits - 1) if settings.digits > 1 else 0
    numbers = [str(number) for number in range(low, 10**settings.digits)]
    rng.shuffle(numbers)
    return numbers, numbers[round(settings.unseen * len(numbers)) :]


def _shift(settings: TaskSettings, rng: random.Random) -> tuple[float, float]:
    limit = settings.shift
    return (round(rng.uniform(-limit, limit), 2), round(rng.uniform(-limit, limit), 2))
