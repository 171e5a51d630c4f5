"""A small world that is made once per process: documents, index, questions and a tiny model."""

from pathlib import Path
from types import SimpleNamespace

from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.synth import SynthSettings, synthesize
from docagent_rl.lab.synth.settings import DocumentDifficulty
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.samples.questions import read_questions


def make_world(root: Path, *, model: bool = True) -> SimpleNamespace:
    """Make a store, an index with its retriever, questions with evidence, and a model."""
    settings = SynthSettings(documents=3, seed=5, difficulties=(DocumentDifficulty.EASY,))
    synthesize(root / "synthetic", settings)
    ingest(root / "synthetic" / "pdfs", root / "store", workers=1)
    store = DocumentStore(root / "store")
    retriever = BM25Retriever.build(store)
    retriever.save(root / "index")
    if model:
        build_tiny_model(root / "model")
    samples = [r for r in read_questions(root / "synthetic" / "samples.jsonl") if r.gold_pages]
    return SimpleNamespace(root=root, store=store, retriever=retriever, samples=samples)
