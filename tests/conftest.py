"""Shared fixtures; end-to-end tests run last."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from hypothesis import HealthCheck, settings

# a busy machine is no failure
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_collection_modifyitems(items):
    for item in items:
        if "e2e" in Path(item.path).parts:
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: item.get_closest_marker("e2e") is not None)


@pytest.fixture(scope="session")
def processor():
    """The tiny model's processor: real classes, small tokenizer."""
    from docagent_rl.testing.processor import build_processor
    from docagent_rl.testing.tokenizer import build_tokenizer

    return build_processor(build_tokenizer())


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Three synthetic reports, ingested and indexed: (store, retriever, records)."""
    from types import SimpleNamespace

    from docagent_rl.data.record import read_jsonl
    from docagent_rl.data.synth import SynthSettings, synthesize
    from docagent_rl.data.synth.settings import Difficulty
    from docagent_rl.documents import DocumentStore, ingest
    from docagent_rl.retrieval.bm25 import BM25Retriever

    root = tmp_path_factory.mktemp("world")
    settings = SynthSettings(documents=3, seed=5, difficulties=(Difficulty.EASY,))
    synthesize(root / "synthetic", settings)
    ingest(root / "synthetic" / "pdfs", root / "store", workers=1)
    store = DocumentStore(root / "store")
    retriever = BM25Retriever.build(store)
    retriever.save(root / "index")
    records = [r for r in read_jsonl(root / "synthetic" / "records.jsonl") if r.gold_pages]
    return SimpleNamespace(root=root, store=store, retriever=retriever, records=records)
