"""The workspace of a rehearsal: synthetic reports, as many questions as needed, a tiny model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.rehearsal.paths import RehearsalPaths
from docagent_rl.lab.synth import SynthSettings, synthesize
from docagent_rl.lab.synth.settings import DocumentDifficulty
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.models import get_family
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.samples.parquet import parquet_bytes
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.systems import get_system

DOCUMENTS = 8
"""Reports, of 20 to 40 pages each."""


def make_workspace(
    paths: RehearsalPaths, parsed: DocAgentConfig, *, questions: int, seed: int = 0
) -> None:
    """Make what is missing of a workspace.

    Args:
        paths: where.
        parsed: the recipe's section `docagent`.
        questions: the number of questions to train on.
        seed: of documents and weights.

    Raises:
        UserError: the family has no tiny model, or one that sees images in other sizes.
    """
    check_family(paths.family)
    settings = SynthSettings(
        documents=DOCUMENTS, difficulties=(DocumentDifficulty.HARD,), seed=seed
    )
    synthetic = paths.workspace / "synthetic"
    synthesize(synthetic, settings)
    ingest(synthetic / "pdfs", paths.store, replace=False)
    store = DocumentStore(paths.store)
    if not paths.index.is_dir():
        BM25Retriever.build(store).save(paths.index)
    asked = [
        sample
        for sample in read_questions(synthetic / "samples.jsonl")
        if sample.answers and sample.gold_pages
    ]
    atomic_write(paths.data(Split.TRAIN), parquet_bytes(repeated(asked, questions, Split.TRAIN)))
    atomic_write(paths.data(Split.VAL), parquet_bytes(repeated(asked, 8, Split.VAL)))
    texts = _texts(parsed, store, asked)
    build_tiny_model(
        paths.model,
        family=paths.family,
        seed=seed,
        texts=texts,
        longest=paths.longest,
        smallest=True,
    )


def check_family(name: str) -> None:
    """Check that the tiny model of a family sees images in the sizes of the released ones.

    Raises:
        UserError: it does not.
    """
    vision = get_family(name).vision
    if vision is not None and vision.grid_of(tiny=True) != vision.grid:
        raise UserError(
            f"the tiny model of {name} sees smaller images than the released ones, so a rehearsal "
            "would not have the recipe's sizes"
        )


def repeated(samples: Sequence[Sample], count: int, split: Split) -> list[Sample]:
    """Return so many questions; those that are asked again have ids of their own."""
    return [
        replace(sample, question_id=f"{sample.question_id}_{number}", split=split)
        for number, sample in enumerate(islice(cycle(samples), count))
    ]


def _texts(
    parsed: DocAgentConfig, store: DocumentStore, samples: Sequence[Sample]
) -> Iterator[str]:
    """Yield texts whose words the tokenizer learns: the prompt, questions, and pages."""
    system = get_system(parsed.system)
    prompt = system.load_prompt(parsed.env, parsed.prompt)
    yield Path(prompt.source).read_text(encoding="utf-8")
    yield from (sample.question for sample in samples)
    for ref in islice(store.pages(), 0, None, 7):
        yield store.page(ref).text()
