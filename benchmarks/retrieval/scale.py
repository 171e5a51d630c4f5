"""The law of scale: what pages of vectors take on disk, to index and to search, here and for more of them.

    python -m benchmarks.retrieval.scale measure embedded --data FOLDER --pages 20000
    python -m benchmarks.retrieval.scale law --data FOLDER

Each measurement is a line of FOLDER/scale.jsonl; two sizes of an engine give its law, one a guess that all
grows with the pages. Pages are those of `benchmarks.retrieval.corpus`, of 126 vectors of 128 numbers; with
`--pool 8` neighbours are joined to 16 a page. The making of the vectors is left out.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.common import show, single_thread
from benchmarks.retrieval.collections import opened, row_of, stored
from benchmarks.retrieval.corpus import gold
from benchmarks.retrieval.corpus_data import DIM, Tokens, pages, tokens
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines.collection import Asked
from docagent_rl.retrieval.engines.qdrant import joined
from docagent_rl.retrieval.vectors.bank import Bank, make_bank, open_bank, write_banks
from docagent_rl.retrieval.vectors.candidates import Candidates, train_clusters
from docagent_rl.retrieval.vectors.maxsim import rank_rows, rounded, scattered_scores

_TOP, _CANDIDATES, _AT_A_TIME, _QUERIES = 10, 200, 200, 20
_SIZES = (100_000, 1_000_000, 10_000_000)
_COLUMNS = (
    "engine, vectors a page",
    "pages",
    "GB",
    "index, CPU hours",
    "CPU ms a search",
    "recall@10",
)
app = typer.Typer()
Data = Annotated[Path, typer.Option(help="Folder for vectors, collections and what was measured.")]


@dataclass(frozen=True)
class Cost:
    """One measurement: `vectors` of a page, bytes with those of the vectors, seconds of processor."""

    engine: str
    pages: int
    vectors: float
    gigabytes: float
    build_s: float
    search_s: float
    recall: float


def bank_of(place: Path, real: Tokens, count: int, pool: int) -> Bank:
    """The pages in a folder, mapped into memory; made when it is not there."""
    if not place.is_dir():
        place.mkdir(parents=True)
        found = (joined(page, pool) if pool > 1 else page for page in pages(real, count, seed=1))
        write_banks(place, (make_bank(block, DIM) for block in iter(lambda: list(islice(found, 200)), [])))
    return open_bank(place)


def embedded(bank: Bank, queries: Sequence[np.ndarray], folder: Path) -> Iterator[object]:
    """Ours: yields None behind the build, then the best pages of each query."""
    folder.mkdir(parents=True, exist_ok=True)
    candidates = Candidates.make(bank, train_clusters(bank))
    candidates.save(folder)
    yield None
    for query in queries:
        sums = candidates.sums(query)
        rows = np.sort(rank_rows(sums, _CANDIDATES))
        yield set(rows[rank_rows(scattered_scores(bank, query, rows), _TOP)].tolist())


def in_engine(
    engine: SearchEngine, bank: Bank, queries: Sequence[np.ndarray], folder: Path
) -> Iterator[object]:
    """The same of a collection."""
    collection, found = opened(engine, folder), stored(bank)
    while some := list(islice(found, _AT_A_TIME)):
        collection.add(some)
    collection.finish()
    yield None
    for query in queries:
        hits = collection.search(Asked(rounded(query), None, _TOP, frozenset[PageRef](), _CANDIDATES))
        yield {row_of(hit.ref) for hit in hits}


@app.command()
def measure(
    engine: SearchEngine,
    data: Data,
    count: Annotated[int, typer.Option("--pages")] = 20_000,
    pool: Annotated[int, typer.Option(help="Neighbouring vectors of a page in one.")] = 1,
) -> None:
    """Measure one size, and write it down."""
    single_thread(cpu=True)
    real = tokens(data, 1000, 40)
    place, folder = data / f"scale-{count}-{pool}", data / f"scale-{engine.value}"
    queries, bank = real.queries[:_QUERIES], bank_of(place, real, count, pool)
    best, _ = gold(bank, queries)
    started = time.process_time()
    ours = engine is SearchEngine.EMBEDDED
    work = embedded(bank, queries, folder) if ours else in_engine(engine, bank, queries, folder)
    next(work)
    built = time.process_time() - started
    files = [*folder.rglob("*"), *(place.iterdir() if ours else ())]
    size = sum(file.stat().st_size for file in files if file.is_file())
    started = time.process_time()
    found = list(work)
    searched = (time.process_time() - started) / len(queries)
    recall = float(np.mean([len(want & got) / _TOP for want, got in zip(best, found, strict=True)]))
    cost = Cost(engine.value, count, len(bank.vectors) / count, size / 1e9, built, searched, recall)
    with (data / "scale.jsonl").open("a") as file:
        file.write(json.dumps(asdict(cost)) + "\n")
    typer.echo(json.dumps(asdict(cost)))


@app.command()
def law(data: Data) -> None:
    """Print what was measured, and what follows for more pages."""
    costs = [Cost(**json.loads(line)) for line in (data / "scale.jsonl").read_text().splitlines()]
    by_kind: dict[tuple[str, int], dict[int, Cost]] = defaultdict(dict)
    for cost in costs:
        by_kind[cost.engine, round(cost.vectors)][cost.pages] = cost
    rows = []
    for (engine, vectors), known in sorted(by_kind.items()):
        label = f"{engine}, {vectors}"
        rows += [row(label, cost, measured=True) for _, cost in sorted(known.items())]
        rows += [row(label, projected(known, size), measured=False) for size in _SIZES if size not in known]
    show("measured, and ~ by the law", _COLUMNS, rows)


def projected(known: Mapping[int, Cost], size: int) -> Cost:
    """What follows from the two largest sizes: the build grows by a power from 1, all else on a line.

    Of one size bytes and the build grow with the pages, and nothing is said of searches.
    """
    large = known[max(known)]
    times = size / large.pages
    if len(known) == 1:
        grown = (large.gigabytes * times, large.build_s * times, float("nan"))
    else:
        small = known[sorted(known)[-2]]
        power = np.log(large.build_s / small.build_s) / np.log(large.pages / small.pages)
        part = (size - large.pages) / (large.pages - small.pages)
        grown = (
            large.gigabytes + part * (large.gigabytes - small.gigabytes),
            large.build_s * times ** max(1.0, power),
            large.search_s + part * max(0.0, large.search_s - small.search_s),
        )
    return Cost(large.engine, size, large.vectors, *grown, recall=float("nan"))


def row(label: str, cost: Cost, *, measured: bool) -> tuple[str, ...]:
    """A line of the table."""
    numbers = (cost.gigabytes, cost.build_s / 3600, cost.search_s * 1e3, cost.recall)
    shown = ("" if np.isnan(number) else f"{number:.3g}" for number in numbers)
    return label, f"{'' if measured else '~ '}{cost.pages:,}", *shown


if __name__ == "__main__":
    app()
