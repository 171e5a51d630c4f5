"""BM25 over a corpus of pages: ours and bm25s, in one run.

    python -m benchmarks.retrieval.bm25 [--pages 70000]

Words are drawn by Zipf's law, as text has them. Processor time of one thread; the results are compared too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import bm25s
import numpy as np
from rich.console import Console
from rich.table import Table

from docagent_rl.retrieval.base import top_rows
from docagent_rl.retrieval.bm25 import Postings

WORDS, WORDS_A_PAGE, PAGES_A_DOCUMENT, QUERY_WORDS = 200_000, 400, 50, 8
ROUNDS, TOP_K = 200, 10


def corpus(pages: int, rng: np.random.Generator) -> bm25s.BM25:
    rows = (rng.zipf(1.15, size=(pages, WORDS_A_PAGE)) % WORDS).tolist()
    index = bm25s.BM25(method="lucene", backend="numpy")
    index.index((rows, {str(word): word for word in range(WORDS)}), show_progress=False)
    return index


def queries(rng: np.random.Generator) -> list[list[int]]:
    """Words as often as they are in texts: `the` and `of` are among them."""
    return (rng.zipf(1.15, size=(ROUNDS, QUERY_WORDS)) % WORDS).tolist()


def milliseconds(search: Callable[[list[int]], object], asked: list[list[int]]) -> float:
    times = []
    for query in asked:
        began = time.process_time()
        search(query)
        times.append(time.process_time() - began)
    return 1000 * median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pages", type=int, default=70_000)
    pages = parser.parse_args().pages
    rng = np.random.default_rng(0)
    index, asked = corpus(pages, rng), queries(rng)
    postings = Postings.of(index)
    start = pages // 2
    end = start + PAGES_A_DOCUMENT

    def theirs(query: list[int]) -> np.ndarray:
        return index.get_scores_from_ids(query)

    def document(query: list[int]) -> np.ndarray:
        return postings.scores(query, start, end)

    for query in asked[:20]:
        assert np.array_equal(theirs(query), postings.scores(query, 0, pages))
        assert np.array_equal(theirs(query)[start:end], document(query))
    table = Table("search", "bm25s, ms", "ours, ms", "ratio", title=f"BM25 over {pages:,} pages")
    pairs = {
        "all pages": (
            lambda query: top_rows(theirs(query), TOP_K),
            lambda query: top_rows(postings.scores(query, 0, pages), TOP_K),
        ),
        f"one document of {PAGES_A_DOCUMENT}": (
            lambda query: top_rows(theirs(query)[start:end], TOP_K),
            lambda query: top_rows(document(query), TOP_K),
        ),
    }
    for name, (other, ours) in pairs.items():
        before, after = milliseconds(other, asked), milliseconds(ours, asked)
        table.add_row(name, f"{before:.3f}", f"{after:.3f}", f"{before / after:.1f}x")
    Console().print(table)


if __name__ == "__main__":
    main()
