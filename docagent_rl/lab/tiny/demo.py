"""A workspace for trying everything out: synthetic reports, real PDFs if there are any, and tiny
models.

The demo only works in workspaces of its own (`workspace.MARKER`), and adds what is missing there.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import Document, DocumentStore
from docagent_rl.lab.generate.config import EvidenceKind
from docagent_rl.lab.generate.outline import outline_questions
from docagent_rl.lab.synth import SynthSettings, synthesize
from docagent_rl.lab.tiny.build import ASKED, World, build_trained_model, make_players
from docagent_rl.lab.tiny.workspace import DemoPaths, claim
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.samples.parquet import parquet_bytes
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.systems import DEFAULT_SYSTEM, get_system

_KEPT = "to get new questions about the current documents, remove it and run the demo again"

OUTLINE_QUESTIONS = 24
"""Number of questions about the sections of each real PDF."""

OUTLINE_BUDGET = 40
"""Questions about a synthetic report's sections, times its pages: short reports get more of them,
since their pages can be found by chance.
"""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The contents of a demo workspace, in numbers."""

    paths: DemoPaths
    documents: int
    pages: int
    questions: dict[str, int]
    """Number of questions by split."""
    kept: tuple[Path, ...] = ()
    """Existing files whose questions differ from those that the demo would write now."""

    def describe(self) -> str:
        """Return a line of numbers, and one for each question file that was left alone."""
        counts = ", ".join(f"{number} {split}" for split, number in self.questions.items())
        line = (
            f"{self.paths.workspace}: {self.documents} documents, {self.pages} pages; "
            f"questions: {counts}"
        )
        return "\n".join([line, *(f"{path} was left unchanged; {_KEPT}" for path in self.kept)])


def prepare_demo(
    workspace: Path,
    *,
    pdfs: Path | None = None,
    seed: int = 0,
    progress: bool = False,
    system: str | None = DEFAULT_SYSTEM,
    family: str | None = None,
    env: Mapping[str, Any] | None = None,
    warm_up: Mapping[str, Any] | None = None,
    synthetic: SynthSettings | None = None,
    ocr: OcrMode = OcrMode.AUTO,
) -> DemoReport:
    """Fill a new workspace, or one that the demo owns; existing parts are not made again.

    Questions come from the synthetic reports (answers, pages and boxes known by construction) and
    from the headings of these and of real PDFs ("On which page does the section ... begin?"). The
    tiny model learns from scripted trajectories in the system's environment over these documents. A
    system without a scripted policy, such as one of your own, gets a model that was warmed up on
    `DEFAULT_SYSTEM`.

    `pdfs` (by default `<workspace>/pdfs`) are ingested as well. Only the model of `system` is made,
    or none for `None`; `env` configures its environment (by default `System.small`), and `warm_up`
    changes `WarmUp`.

    Raises:
        UserError: the workspace is the user's, a PDF cannot be read, `pdfs` does not exist, or
            `env` is not a configuration of the system.
    """
    paths = DemoPaths(workspace)
    real = pdfs or paths.pdfs
    if pdfs is not None and not pdfs.is_dir():
        raise UserError(f"{pdfs}: no such folder of PDFs; name an existing one")
    claim(paths)
    synthesize(paths.synthetic, synthetic or SynthSettings(seed=seed), progress=progress)
    take_in = partial(
        ingest, store=paths.store, progress=progress, replace=False, ocr=ocr, strict=True
    )
    take_in(paths.synthetic / "pdfs")
    real_ids: set[str] = set()
    if real.is_dir() and any(real.glob("**/*.pdf")):
        report = take_in(real)
        real_ids = {*report.ingested, *report.skipped, *report.kept}
    store = DocumentStore(paths.store)
    build_demo_index(store, paths.index)
    questions = _questions(paths, store, sorted(real_ids), seed)
    kept = [
        paths.data(split) for split in questions if not _write(paths.data(split), questions[split])
    ]
    if system is not None:
        world = World(store, BM25Retriever.load(paths.index), questions[Split.TRAIN])
        path = paths.model(system, family)
        family = family or get_system(system).model_family
        players = make_players(system, env, world, family=family)
        build_trained_model(
            path, players, family=family, seed=seed, changes=warm_up, progress=progress
        )
    return DemoReport(
        paths,
        documents=len(store.doc_ids()),
        pages=sum(1 for _ in store.pages()),
        questions={
            split.value: pq.read_metadata(paths.data(split)).num_rows for split in questions
        },
        kept=tuple(kept),
    )


def _write(path: Path, samples: Sequence[Sample]) -> bool:
    """Write questions unless the file exists; return whether the file now contains them."""
    content = parquet_bytes(samples)
    if not path.exists():
        atomic_write(path, content)
    return path.read_bytes() == content


def shuffled_samples(samples: Sequence[Sample], seed: str) -> list[Sample]:
    """Return the samples in an order that depends on the seed."""
    ordered = list(samples)
    random.Random(seed).shuffle(ordered)
    return ordered


def build_demo_index(store: DocumentStore, path: Path) -> None:
    """Index a store with the settings of the existing index, if any; an index that fits the store
    is left alone.
    """
    settings = None
    if path.exists():
        try:
            found = BM25Retriever.load(path)
            settings = found.settings
            found.check(store)
        except UserError:
            pass  # stale: the store has changed since, or the index is damaged
        else:
            return
    BM25Retriever.build(store, settings=settings).save(path)


def _questions(
    paths: DemoPaths, store: DocumentStore, real_ids: Sequence[str], seed: int
) -> dict[Split, list[Sample]]:
    """Return samples by split; all have gold pages, which retrieval rewards need."""
    samples = _synthetic_questions(paths, store, seed)
    for doc_id in real_ids:
        drawn = _section_questions(store.document(doc_id), OUTLINE_QUESTIONS, seed)
        held_out = len(drawn) // 4
        samples += [
            *drawn[held_out:],
            *(replace(sample, split=Split.VAL) for sample in drawn[:held_out]),
        ]
    splits: dict[Split, list[Sample]] = {}
    for split in (Split.TRAIN, Split.VAL):
        chosen = [sample for sample in samples if sample.split is split]
        splits[split] = shuffled_samples(chosen, f"demo/{seed}/{split.value}")
    return splits


def _synthetic_questions(paths: DemoPaths, store: DocumentStore, seed: int) -> list[Sample]:
    made = [
        sample for sample in read_questions(paths.synthetic / "samples.jsonl") if sample.gold_pages
    ]
    samples = [r for r in made if r.split is not Split.TRAIN or r.extra["kind"] in ASKED]
    for doc_id in sorted({sample.doc_id for sample in made if sample.split is Split.TRAIN}):
        document = store.document(doc_id)
        samples += _section_questions(document, OUTLINE_BUDGET // document.num_pages, seed)
    return samples


def _section_questions(document: Document, limit: int, seed: int) -> list[Sample]:
    """Return at most `limit` questions asking on which page a section begins."""
    return outline_questions(
        document, limit=limit, seed=seed, most={EvidenceKind.SINGLE_PAGE: limit}
    )
