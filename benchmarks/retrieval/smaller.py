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
    bank, signs = open_bank(folder), None
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
    rows, scores, seconds = [], [], []
    for query in [queries[0], *queries]:
        start = time.process_time()
        (hits,) = index.rank([query], doc_id=None, top_k=_TOP, exclude=())
        seconds.append(time.process_time() - start)
        rows.append([hit.ref.page - 1 for hit in hits])
        scores.append([hit.score for hit in hits])
    return np.array(rows[1:]), np.array(scores[1:]), float(np.median(seconds[1:]))


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
    whole, table = None, []
    for name in ["bfloat16", *(forms or list(FORMS)[1:])]:
        with TemporaryDirectory(dir=data) as folder:
            start = time.process_time()
            index = index_of(Path(folder), pages, FORMS[name])
            made = (time.process_time() - start) / len(pages)
            rows, scores, seconds = ranked(index, real.queries)
        read = index.bank.nbytes if index.signs is None else index.signs.bits.nbytes
        stored = index.bank.nbytes + (0 if index.signs is None else read)
        whole = whole or (rows, scores)
        shared = np.mean([len(set(a) & set(b)) / _TOP for a, b in zip(rows, whole[0], strict=True)])
        recalls = [
            np.mean([want in found[:k] for want, found in zip(gold, rows, strict=True)])
            for k in (1, 5)
        ]
        apart = np.abs(scores[:, 0] - whole[1][:, 0]).mean()
        table.append(
            (name, f"{read / len(pages):,.0f}", f"{stored / len(pages):,.0f}",
             f"{made * 1e3:.2f}", f"{seconds * 1e3:.1f}",
             *(f"{recall:.2f}" for recall in recalls), f"{shared:.3f}", f"{apart:.3f}")
        )  # fmt: skip
    show(f"{len(pages):,} pages, {sum(map(len, pages)):,} vectors of {DIM}", _COLUMNS, table)


if __name__ == "__main__":
    typer.run(main)
