"""A small world that is made once a process: documents, index, questions and a tiny model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.lab.synth import SynthSettings, synthesize
from docagent_rl.lab.synth.settings import Difficulty
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.samples.sample import read_jsonl


def make_world(root: Path) -> SimpleNamespace:
    """Store, index, questions with evidence, and a model."""
    settings = SynthSettings(documents=3, seed=5, difficulties=(Difficulty.EASY,))
    synthesize(root / "synthetic", settings)
    ingest(root / "synthetic" / "pdfs", root / "store", workers=1)
    store = DocumentStore(root / "store")
    BM25Retriever.build(store).save(root / "index")
    build_tiny_model(root / "model")
    samples = [r for r in read_jsonl(root / "synthetic" / "samples.jsonl") if r.gold_pages]
    return SimpleNamespace(root=root, store=store, samples=samples)
