"""A user's workspace of scanned pages: pictures without text, read by OCR and indexed."""

from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.retrieval.bm25 import BM25Settings
from docagent_rl.retrieval.indexes import build_bm25
from docagent_rl.samples.parquet import read_parquet, write_parquet
from docagent_rl.samples.sample import Sample, Split

PAGES = 8
"""Smallest number of scanned pages; reading a page takes seconds."""


def scan(demo: DemoPaths, own: DemoPaths) -> None:
    """Write pictures of reports as a scanner does: one folder per document, one file per page.

    All questions are trained on, and the run does not validate.
    """
    store = DocumentStore(demo.store)
    questions = list(read_parquet(demo.data(Split.TRAIN)))
    chosen = chosen_documents(store, questions)
    for doc_id in sorted(chosen):
        (own.pdfs / doc_id).mkdir(parents=True)
        for number in range(1, store.document(doc_id).num_pages + 1):
            page = store.document(doc_id).page(number)
            (own.pdfs / doc_id / f"{number:03}.jpg").write_bytes(page.image_bytes())
    report = ingest(own.pdfs, own.store)
    assert not report.failed
    build_bm25(DocumentStore(own.store), own.index, BM25Settings())
    for split in (Split.TRAIN, Split.VAL):
        write_parquet([sample for sample in questions if sample.doc_id in chosen], own.data(split))


def chosen_documents(store: DocumentStore, samples: list[Sample]) -> set[str]:
    """Return the shortest documents with questions, which together have at least `PAGES` pages."""
    found: set[str] = set()
    pages = 0
    for doc_id in sorted(
        {sample.doc_id for sample in samples}, key=lambda d: (store.document(d).num_pages, d)
    ):
        if pages >= PAGES:
            break
        found.add(doc_id)
        pages += store.document(doc_id).num_pages
    return found
