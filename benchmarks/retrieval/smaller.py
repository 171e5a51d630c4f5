"""Smaller vectors of late interaction: recall, agreement with the whole ones, bytes and time.

python -m benchmarks.retrieval.smaller --data FOLDER
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.common import show, single_thread
from benchmarks.retrieval.corpus_data import DIM, sources, tokens
from docagent_rl.retrieval.base import top_rows
from docagent_rl.retrieval.vectors.bank import NO_SCORE, Bank, make_bank, page_scores
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm, pooled

_TOP = 10
FORMS = {
    "bfloat16": VectorForm(),
    "int8": VectorForm(precision=Precision.INT8),
    "2 pooled": VectorForm(pooled=2),
    "3 pooled": VectorForm(pooled=3),
    "4 pooled": VectorForm(pooled=4),
    "6 pooled": VectorForm(pooled=6),
    "3 pooled, int8": VectorForm(pooled=3, precision=Precision.INT8),
}
_COLUMNS = ("form", "bytes a page", "make, CPU ms a page", "CPU ms a query", "recall@1", "recall@5",
            f"of the whole ones' top {_TOP}", "mean difference of a best score")  # fmt: skip


def ranked(bank: Bank, queries: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the best pages and their scores, shape (queries, 10), and the median processor time of
    one.
    """
    rows, scores, seconds = [], [], []
    page_scores(bank, queries[:1])
    for query in queries:
        start = time.process_time()
        (found,) = page_scores(bank, [query])
        best = top_rows(found, _TOP, NO_SCORE)
        seconds.append(time.process_time() - start)
        rows.append(best)
        scores.append(found[best])
    return np.array(rows), np.array(scores), float(np.median(seconds))


def main(
    data: Annotated[Path, typer.Option(help="Folder for vectors that are made once.")],
    passages: Annotated[
        int, typer.Option(help="Real passages, each a page of some 115 vectors.")
    ] = 3000,
    questions: Annotated[
        int, typer.Option(help="Queries: some words of a passage, which is to be found.")
    ] = 100,
) -> None:
    """Measure processor time on one thread."""
    single_thread(cpu=True)
    real = tokens(data, passages, questions)
    pages = [real.bank[start:end] for start, end in pairwise(real.offsets)]
    gold = sources(passages, questions)
    whole, table = None, []
    for name, form in FORMS.items():
        start = time.process_time()
        bank = make_bank(pooled(pages, form.pooled), DIM, form.precision)
        made = (time.process_time() - start) / passages
        rows, scores, seconds = ranked(bank, real.queries)
        whole = whole or (rows, scores)
        shared = np.mean([len(set(a) & set(b)) / _TOP for a, b in zip(rows, whole[0], strict=True)])
        recalls = [
            np.mean([want in found[:k] for want, found in zip(gold, rows, strict=True)])
            for k in (1, 5)
        ]
        apart = np.abs(scores[:, 0] - whole[1][:, 0]).mean()
        table.append(
            (name, f"{bank.nbytes / passages:,.0f}", f"{made * 1e3:.2f}", f"{seconds * 1e3:.1f}",
             *(f"{recall:.2f}" for recall in recalls), f"{shared:.3f}", f"{apart:.3f}")
        )  # fmt: skip
    show(f"{passages:,} passages, {len(real.bank):,} vectors of {DIM}", _COLUMNS, table)


if __name__ == "__main__":
    typer.run(main)
