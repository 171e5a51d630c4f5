"""A workspace to try everything on: synthetic reports, real PDFs if there are any, and a tiny model."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from docagent_rl.data.outline_questions import outline_records
from docagent_rl.data.parquet import write_parquet
from docagent_rl.data.record import Record, Split, read_jsonl
from docagent_rl.data.synth import SynthSettings, synthesize
from docagent_rl.documents import DocumentStore, ingest
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever

OUTLINE_QUESTIONS = 24
"""Questions drawn from the bookmarks of each real PDF."""


@dataclass(frozen=True, slots=True)
class DemoPaths:
    """Where the parts of a workspace are; the recipes' defaults name the same places."""

    workspace: Path

    @property
    def pdfs(self) -> Path:
        """PDFs of the user's own: whatever lies here is ingested too."""
        return self.workspace / "pdfs"

    @property
    def synthetic(self) -> Path:
        """Synthetic reports and their questions."""
        return self.workspace / "synthetic"

    @property
    def store(self) -> Path:
        """The document store."""
        return self.workspace / "store"

    @property
    def index(self) -> Path:
        """The BM25 index."""
        return self.workspace / "index"

    @property
    def model(self) -> Path:
        """The tiny model."""
        return self.workspace / "models" / "tiny_qwen2_5_vl"

    def data(self, split: Split) -> Path:
        """A parquet file of verl's shape."""
        return self.workspace / "data" / f"{split.value}.parquet"

    @property
    def missing(self) -> list[Path]:
        """What a run needs and is not there."""
        needed = [self.store, self.index, self.model / "config.json"]
        needed += [self.data(split) for split in (Split.TRAIN, Split.VAL)]
        return [path for path in needed if not path.exists()]


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What is in the workspace now."""

    paths: DemoPaths
    documents: int
    pages: int
    questions: dict[str, int]

    def describe(self) -> str:
        """One line for people."""
        counts = ", ".join(f"{number} {split}" for split, number in self.questions.items())
        return f"{self.paths.workspace}: {self.documents} documents, {self.pages} pages; questions: {counts}"


def prepare_demo(
    workspace: Path, *, pdfs: Path | None = None, seed: int = 0, progress: bool = False
) -> DemoReport:
    """Fill a workspace; what exists already is not made again.

    Questions come from the synthetic reports (answers, pages and boxes known by construction) and from the
    bookmarks of real PDFs ("on which page does the section ... begin?").

    Args:
        workspace: the folder.
        pdfs: a folder of PDFs to ingest as well; `<workspace>/pdfs` by default, if it exists.
        seed: seed of documents, questions and the model.
        progress: show progress bars.

    Raises:
        UserError: a PDF cannot be read, or `pdfs` does not exist.
    """
    paths = DemoPaths(workspace)
    real = pdfs or paths.pdfs
    if pdfs is not None and not pdfs.is_dir():
        raise UserError(f"{pdfs}: no such folder of PDFs")
    synthesize(paths.synthetic, SynthSettings(seed=seed), progress=progress)
    ingest(paths.synthetic / "pdfs", paths.store, progress=progress)
    real_ids: set[str] = set()
    if real.is_dir() and any(real.glob("**/*.pdf")):
        report = ingest(real, paths.store, progress=progress)
        real_ids = {*report.ingested, *report.skipped}
        if report.failed:
            raise UserError("; ".join(f"{f.name}: {f.reason}" for f in report.failed))
    store = DocumentStore(paths.store)
    _build_index(store, paths.index, progress=progress)
    questions = _questions(paths, store, sorted(real_ids), seed)
    for split, records in questions.items():
        write_parquet(records, paths.data(split))
    _build_model(paths.model, questions[Split.TRAIN], seed, progress=progress)
    return DemoReport(
        paths,
        documents=len(store.doc_ids()),
        pages=sum(1 for _ in store.pages()),
        questions={split.value: len(records) for split, records in questions.items()},
    )


def _build_index(store: DocumentStore, path: Path, *, progress: bool) -> None:
    if path.exists():
        try:
            BM25Retriever.load(path).check(store)
        except UserError:
            pass  # stale: the store has changed since
        else:
            return
    BM25Retriever.build(store, progress=progress).save(path)


def _questions(
    paths: DemoPaths, store: DocumentStore, real_ids: Sequence[str], seed: int
) -> dict[Split, list[Record]]:
    """Records by split; those without gold pages are left out, since retrieval rewards need some."""
    records = [r for r in read_jsonl(paths.synthetic / "records.jsonl") if r.gold_pages]
    for doc_id in real_ids:
        drawn = outline_records(store.document(doc_id), limit=OUTLINE_QUESTIONS, seed=seed, split=Split.TRAIN)
        held_out = len(drawn) // 4
        records += drawn[held_out:]
        records += [_as_validation(record) for record in drawn[:held_out]]
    splits: dict[Split, list[Record]] = {}
    for split in (Split.TRAIN, Split.VAL):
        chosen = [record for record in records if record.split is split]
        random.Random(f"demo/{seed}/{split.value}").shuffle(chosen)
        splits[split] = chosen
    return splits


def _as_validation(record: Record) -> Record:
    return Record.from_dict({**record.to_dict(), "split": Split.VAL.value})


def _build_model(path: Path, records: Sequence[Record], seed: int, *, progress: bool) -> None:
    """A tiny model that has learnt the form of a VRAG-RL turn: random weights would only emit noise."""
    from docagent_rl.systems import get_system
    from docagent_rl.testing.tiny_qwen2_5_vl import build_tiny_qwen2_5_vl
    from docagent_rl.testing.transcripts import vrag_rl_transcripts
    from docagent_rl.testing.warm_up import WarmUp

    prompt = get_system("vrag_rl").load_prompt({})
    variables = {"turns": 5, "crop": True, "frame": "encoder", "pages": 1}

    def opening(question: str) -> list[dict[str, Any]]:
        parts = [role for role in ("system", "user") if role in prompt]
        return [{"role": p, "content": prompt.render(p, question=question, **variables)} for p in parts]

    questions = [(r.question, r.answers[0]) for r in records if r.answers]
    transcripts = partial(vrag_rl_transcripts, opening, questions)
    build_tiny_qwen2_5_vl(path, seed=seed, warm_up=WarmUp(transcripts, seed=seed), show_progress=progress)
