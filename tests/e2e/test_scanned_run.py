"""A corpus of scanned pages is ingested, indexed and trained on, without a network."""

from __future__ import annotations

import json

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.rollout.trajectory import read_trajectories


@pytest.fixture(scope="module")
def run(runs):
    return runs.result("scanned")


def test_pages_have_the_text_that_was_read(run):
    store = DocumentStore(run.workspace / "store")
    texts = [store.page(ref).text() for ref in store.pages()]
    assert sum(len(text) > 40 for text in texts) > 0.7 * len(texts) > 5


def test_scans_are_found_and_trained_on(run):
    numbers = json.loads((run.run_dir / "metrics" / "1.json").read_text())
    assert numbers["docagent/masked_trajectories"] == 0
    assert numbers["docagent/pages_seen"] > 0
    played = list(read_trajectories(run.run_dir / "trajectories" / "1.jsonl"))
    assert len({session.record["doc_id"] for session in played}) > 1
    assert max(session.metrics["retrieval_recall"] for session in played) > 0


def test_searches_are_counted(run):
    numbers = json.loads((run.run_dir / "metrics" / "1.json").read_text())
    assert numbers["docagent/retriever/searches"] > 0
    assert 0 <= numbers["docagent/retriever/recall"] <= 1
    assert numbers["docagent/retriever/p99_s"] > 0
