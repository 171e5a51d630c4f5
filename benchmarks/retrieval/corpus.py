"""Late interaction over a corpus: an exact scan against candidates and exact re-ranking, by several engines.

    python -m benchmarks.retrieval.corpus --data FOLDER

Engines that are not installed (lancedb, usearch) are left out and named.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.common import show, single_thread
from benchmarks.retrieval.corpus_data import DIM, Tokens, pages, tokens
from benchmarks.retrieval.engines import ENGINES, Engine
from docagent_rl.retrieval.vectors.bank import Bank, Precision, make_bank, open_bank, write_banks
from docagent_rl.retrieval.vectors.encoding import pool_vectors
from docagent_rl.retrieval.vectors.maxsim import page_scores, rank_rows, scattered_scores

_TOP = 10
_COUNTS = (100, 200, 400)
_WRITTEN = 500
_LOSS_PAGES = 3000
_COLUMNS = ("search", "build CPU s", "MB", "CPU ms", "times as fast", "recall@10")


@dataclass(slots=True)
class Measured:
    """The numbers of one way to search.

    Args:
        seconds: processor time of each query.
        recall: of each query: the share of the exact best 10 that it found.
    """

    seconds: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)


def written(folder: Path, real: Tokens, count: int) -> Bank:
    """A bank of `count` pages in a file, mapped into memory; made when it is not there."""
    place = folder / f"pages-{count}"
    if not place.is_dir():
        place.mkdir()
        made = pages(real, count, seed=1)
        blocks = iter(lambda: list(islice(made, _WRITTEN)), [])
        write_banks(place, (make_bank(block, DIM) for block in blocks))
    return open_bank(place)


def gold(bank: Bank, queries: list[np.ndarray]) -> tuple[list[set[int]], Measured]:
    """The best pages of each query by an exact scan, and what the scan took."""
    page_scores(bank, queries[:1])
    best, measured = [], Measured()
    for query in queries:
        start = time.process_time()
        scores = page_scores(bank, [query])[0]
        rows = rank_rows(scores, _TOP)
        measured.seconds.append(time.process_time() - start)
        measured.recall.append(1.0)
        best.append(set(rows.tolist()))
    return best, measured


def two_stages(
    bank: Bank,
    queries: list[np.ndarray],
    best: list[set[int]],
    first: Callable[[np.ndarray, int], np.ndarray],
    count: int,
) -> Measured:
    """Candidates of a first stage, exactly scored."""
    measured = Measured()
    first(queries[0], count)
    for query, want in zip(queries, best, strict=True):
        start = time.process_time()
        rows = np.sort(first(query, count))
        found = rows[rank_rows(scattered_scores(bank, query, rows), _TOP)]
        measured.seconds.append(time.process_time() - start)
        measured.recall.append(len(want & set(found.tolist())) / _TOP)
    return measured


def compare(bank: Bank, queries: list[np.ndarray], engines: list[str], folder: Path) -> list[tuple[str, ...]]:
    """Rows of the table of engines."""
    best, exact = gold(bank, queries)
    base = float(np.median(exact.seconds))
    rows = [("exact scan", "", "", f"{base * 1e3:.1f}", "1", "1.000")]
    for name in engines:
        make, settings = ENGINES[name]
        start = time.process_time()
        engine: Engine = make(bank, folder)
        built = time.process_time() - start
        for setting, count in product(settings, _COUNTS):
            measured = two_stages(bank, queries, best, partial(_first, engine, setting), count)
            took = float(np.median(measured.seconds))
            row = (
                f"{name}, {engine.named} {setting}, {count} pages",
                f"{built:.0f}",
                f"{engine.megabytes:.0f}",
                f"{took * 1e3:.1f}",
                f"{base / took:.0f}",
                f"{np.mean(measured.recall):.3f}",
            )
            typer.echo("  ".join(row))
            rows.append(row)
    return rows


def _first(engine: Engine, setting: int, query: np.ndarray, count: int) -> np.ndarray:
    return engine.search(query, setting, count)


def losses(real: Tokens, count: int, queries: list[np.ndarray]) -> list[tuple[str, ...]]:
    """Measure what token pooling and int8 lose: recall of the exact best 10 of the whole vectors."""
    found = list(pages(real, count, seed=1))
    best, _ = gold(make_bank(found, DIM), queries)
    banks = {"int8": make_bank(found, DIM, Precision.INT8)}
    for factor in (2, 3, 4, 8):
        banks[f"pool_factor {factor}"] = make_bank([pool_vectors(page, factor) for page in found], DIM)
        if factor == 3:
            small = make_bank([pool_vectors(page, factor) for page in found], DIM, Precision.INT8)
            banks["pool_factor 3, int8"] = small
    rows = []
    for name, bank in banks.items():
        scores = page_scores(bank, queries)
        recall = [
            len(want & set(rank_rows(row, _TOP).tolist())) / _TOP
            for want, row in zip(best, scores, strict=True)
        ]
        rows.append((name, f"{len(bank.vectors) / count:.0f}", f"{np.mean(recall):.3f}"))
    return rows


def main(
    data: Annotated[Path, typer.Option(help="Folder for vectors that are made once.")],
    sizes: Annotated[str, typer.Option(help="Numbers of pages that ours is measured on.")] = (
        "5000,20000,70000"
    ),
    questions: Annotated[int, typer.Option(help="Queries.")] = 60,
    engines: Annotated[str, typer.Option(help="Of them, by name.")] = ",".join(ENGINES),
    compared: Annotated[int, typer.Option(help="Pages that all engines are compared on.")] = 10_000,
) -> None:
    """Processor time on one thread."""
    single_thread(cpu=True)
    real = tokens(data, 3000, 100)
    queries = real.queries[:questions]
    counts = [int(size) for size in sizes.split(",") if size]
    law = []
    for count in counts:
        bank = written(data, real, count)
        label = f"{count:,} pages, {len(bank.vectors) / 1e6:.1f} M vectors: "
        law += [(label + name, *rest) for name, *rest in compare(bank, queries, ["clusters"], data)]
    if law:
        show("ours by the size of the corpus", _COLUMNS, law)
    show(
        f"what is lost, {_LOSS_PAGES:,} pages",
        ("stored as", "vectors a page", "recall@10"),
        losses(real, _LOSS_PAGES, queries),
    )
    wanted = [name for name in engines.split(",") if name in ENGINES]
    absent = [name for name in wanted if not all(find_spec(module) for module in ENGINES[name][0].needs)]
    if absent:
        typer.echo(f"not installed, so left out: {', '.join(absent)}")
    there = [name for name in wanted if name not in absent]
    rows = compare(written(data, real, compared), queries, there, data)
    show(f"{compared:,} pages", _COLUMNS, rows)


if __name__ == "__main__":
    typer.run(main)
