"""Measure smaller vectors of late interaction: recall, agreement with full ones, bytes and time.

python -m benchmarks.retrieval.smaller --data FOLDER
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from benchmarks.common import show, single_thread
from benchmarks.retrieval.corpus_data import DIM, sources, tokens
from benchmarks.retrieval.corpus_data import pages as mixed_pages
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.vectors.bank import make_bank, open_bank, write_banks
from docagent_rl.retrieval.vectors.binary import open_signs, write_signs
from docagent_rl.retrieval.vectors.index import (
    StoredDocument,
    VectorHeader,
    VectorIndex,
    VectorKind,
)
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm, pooled

_TOP = 10
FORMS = {
    "bfloat16": VectorForm(),
    "int8": VectorForm(precision=Precision.INT8),
    "binary": VectorForm(precision=Precision.BINARY),
    "2 pooled": VectorForm(pooled=2),
    "3 pooled": VectorForm(pooled=3),
    "4 pooled": VectorForm(pooled=4),
    "6 pooled": VectorForm(pooled=6),
    "3 pooled, int8": VectorForm(pooled=3, precision=Precision.INT8),
    "3 pooled, binary": VectorForm(pooled=3, precision=Precision.BINARY),
}
_COLUMNS = ("form", "bytes a page in memory", "on disk", "make, CPU ms a page", "CPU ms a query",
            "recall@1", "recall@5", f"share of the top {_TOP} of bfloat16",
            "mean difference of the best score")  # fmt: skip


def index_of(folder: Path, pages: list[np.ndarray], form: VectorForm) -> VectorIndex:
    """Build an index of the pages of one document, and open it mapped into memory as searches do.

    Args:
        folder: an empty folder for the index.
        pages: vectors of each page, float32 of shape (n, 128).
        form: how vectors are pooled and stored.
    """
    write_banks(folder, [make_bank(pooled(pages, form.pooled), DIM, form.precision.stored)])
    bank = open_bank(folder)
    signs = None
    if form.precision is Precision.BINARY:
        write_signs(folder)
        signs = open_signs(folder, bank)
    document = StoredDocument(doc_id="passages", pages=len(pages), digest="0" * 64)
    header = VectorHeader(
        kind=VectorKind.LATE_INTERACTION,
        encoder="0" * 64,
        content=PageContent.TEXT,
        dim=DIM,
        spec={},
        form=form,
        documents=(document,),
    )
    return VectorIndex(IndexFiles(folder), header, bank, signs)


def ranked(index: VectorIndex, queries: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, float]:
    """Search with each query.

    Returns:
        the best pages and their scores, both of shape (queries, 10), and the median processor time
        of a query in seconds.
    """
    index.rank(queries[:1], doc_id=None, top_k=_TOP, exclude=())  # warms up
    rows = []
    scores = []
    seconds = []
    for query in queries:
        start = time.process_time()
        (hits,) = index.rank([query], doc_id=None, top_k=_TOP, exclude=())
        seconds.append(time.process_time() - start)
        rows.append([hit.ref.page - 1 for hit in hits])
        scores.append([hit.score for hit in hits])
    return np.array(rows), np.array(scores), float(np.median(seconds))


def main(
    data: Annotated[Path, typer.Option(help="A folder for vectors, which are made once.")],
    passages: Annotated[
        int, typer.Option(help="Real passages; each is a page of about 115 vectors.")
    ] = 3000,
    questions: Annotated[
        int, typer.Option(help="Queries, each some words of a passage, which it should find.")
    ] = 100,
    mixed: Annotated[
        int, typer.Option(help="Additional pages that are mixed from pieces of passages.")
    ] = 0,
    forms: Annotated[
        list[str] | None,
        typer.Option("--form", help="A form to measure; repeatable. All by default."),
    ] = None,
) -> None:
    """Print recall, size and processor time on one thread of each form of vectors."""
    single_thread(cpu=True)
    real = tokens(data, passages, questions)
    pages = [real.bank[start:end] for start, end in pairwise(real.offsets)]
    pages += mixed_pages(real, mixed, seed=1)
    gold = sources(passages, questions)
    reference: tuple[np.ndarray, np.ndarray] | None = None  # of the first form, bfloat16
    table = []
    for name in ["bfloat16", *(forms or list(FORMS)[1:])]:
        with TemporaryDirectory(dir=data) as folder:
            start = time.process_time()
            index = index_of(Path(folder), pages, FORMS[name])
            build_seconds = (time.process_time() - start) / len(pages)
            rows, scores, query_seconds = ranked(index, real.queries)

        # searches of a binary index read its signs, and the vectors of the best pages from disk
        in_memory = index.bank.nbytes if index.signs is None else index.signs.bits.nbytes
        on_disk = index.bank.nbytes
        if index.signs is not None:
            on_disk += index.signs.bits.nbytes

        if reference is None:
            reference = rows, scores
        reference_rows, reference_scores = reference
        pairs = zip(rows, reference_rows, strict=True)
        shared = np.mean([len(set(found) & set(wanted)) / _TOP for found, wanted in pairs])
        difference = np.abs(scores[:, 0] - reference_scores[:, 0]).mean()
        recall_1, recall_5 = (
            np.mean([want in found[:k] for want, found in zip(gold, rows, strict=True)])
            for k in (1, 5)
        )
        table.append(
            (
                name,
                f"{in_memory / len(pages):,.0f}",
                f"{on_disk / len(pages):,.0f}",
                f"{build_seconds * 1e3:.2f}",
                f"{query_seconds * 1e3:.1f}",
                f"{recall_1:.2f}",
                f"{recall_5:.2f}",
                f"{shared:.3f}",
                f"{difference:.3f}",
            )
        )
    show(f"{len(pages):,} pages, {sum(map(len, pages)):,} vectors of {DIM}", _COLUMNS, table)


if __name__ == "__main__":
    typer.run(main)
