"""Compute nDCG@10 of indexes on imported questions with graded relevance, as in ViDoRe V3."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.eval.metrics.relevance import CUTOFF, graded_ndcg
from docagent_rl.retrieval.base import Retriever
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.index_files import index_kind
from docagent_rl.retrieval.opening import open_local
from docagent_rl.samples.questions import read_questions
from docagent_rl.samples.sample import Sample

ALL = "all"
_AT_ONCE = 64


def main(
    questions: Annotated[
        Path, typer.Argument(help="The file that `docagent-rl data import vidore_v3` wrote.")
    ],
    index: Annotated[
        list[Path],
        typer.Option(help="A folder that `docagent-rl index build` wrote; repeatable."),
    ],
    store: Annotated[Path, typer.Option(help="The store of the imported documents.")],
    out: Annotated[Path | None, typer.Option(help="A Markdown file to write the table to.")] = None,
    force: Force = False,
) -> None:
    """Print nDCG@10 by language, and the mean over languages, which ViDoRe V3 reports for a corpus.

    Every query searches the whole store. Queries without relevant pages are left out.
    """
    try:
        documents, samples = DocumentStore(store), read_questions(questions)
        measured = {}
        for folder in index:
            config = RetrieverConfig(kind=index_kind(folder) or "bm25", index=folder)
            measured[folder.name] = ndcg_by_language(
                open_local(config, documents), samples, documents
            )
        columns, *rows = lines(measured)
        table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        if out is not None:
            text = [columns, ["---"] * len(columns), *rows]
            write_output(out, "".join(f"| {' | '.join(line)} |\n" for line in text), force=force)
    except UserError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), markup=False, highlight=False)
        raise typer.Exit(2) from error


def ndcg_by_language(
    retriever: Retriever, samples: Sequence[Sample], store: DocumentStore
) -> dict[str, float]:
    """Return the mean nDCG@10 by language, in alphabetical order, and their mean as `ALL`.

    Raises:
        UserError: no question has relevant pages, or one is not in the store.
    """
    known, found = set(store.doc_ids()), defaultdict(list)
    for sample, ranked in _ranked(retriever, samples):
        grades = _grades(sample)
        if absent := sorted({page.rpartition("#")[0] for page in grades} - known):
            raise UserError(
                f"question {sample.question_id!r}: document {absent[0]!r} is not in {store.path}; "
                "import its document with "
                "--store"
            )
        value = graded_ndcg(grades, ranked)
        if value is not None:
            found[str(sample.extra.get("language", "unknown"))].append(value)
    if not found:
        raise UserError("no question has relevant pages")
    means = {name: math.fsum(values) / len(values) for name, values in sorted(found.items())}
    return {**means, ALL: math.fsum(means.values()) / len(means)}


def lines(measured: Mapping[str, Mapping[str, float]]) -> list[list[str]]:
    """Return the table: a header, then one line for each index."""
    names = list(next(iter(measured.values())))
    rows = [
        [index, *(f"{100 * values[name]:.1f}" for name in names)]
        for index, values in measured.items()
    ]
    return [["index", *names], *rows]


def _ranked(retriever: Retriever, samples: Sequence[Sample]) -> Iterator[tuple[Sample, list[str]]]:
    for start in range(0, len(samples), _AT_ONCE):
        some = samples[start : start + _AT_ONCE]
        found = retriever.search([each.question for each in some], top_k=CUTOFF)
        for sample, hits in zip(some, found, strict=True):
            yield sample, [f"{hit.ref.doc_id}#{hit.ref.page}" for hit in hits]


def _grades(sample: Sample) -> dict[str, float]:
    """Return the grades of pages; if the sample has none, every evidence page has grade 1."""
    grades = sample.extra.get("relevance")
    if isinstance(grades, dict):
        return grades
    return {f"{doc_id}#{page}": 1.0 for doc_id, page in sample.gold_pages}


if __name__ == "__main__":
    typer.run(main)
