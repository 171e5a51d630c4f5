"""Measure recall and MRR of retrievers on hand-checked questions about real documents."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.retrieval.evaluation import Result, Scope, as_ranks, check_store, evaluate
from benchmarks.retrieval.questions import QUESTIONS, read
from benchmarks.retrieval.retrievers import RETRIEVERS
from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.outputs import Force, write_output
from docagent_rl.documents.store import DocumentStore
from tools.documents.manifest import MANIFEST, read_manifest

_SCOPES = {Scope.DOCUMENT: "in doc.", Scope.CORPUS: "corpus"}
_COLUMNS = (
    "retriever",
    "part",
    "asked",
    *(f"{_SCOPES[s]}\n{m}" for s in Scope for m in ("R@1", "R@5", "MRR")),
)


def main(
    store: Annotated[Path, typer.Option(help="The store of the documents.")] = Path(
        "workspace/documents/store"
    ),
    retriever: Annotated[
        list[str] | None, typer.Option(help="A retriever; repeatable. All by default.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A Markdown file to write the table to.")] = None,
    details: Annotated[
        Path | None, typer.Option(help="A file for the ranks of each question.")
    ] = None,
    questions: Annotated[Path, typer.Option(help="A file of questions.")] = QUESTIONS,
    manifest: Annotated[
        Path, typer.Option(help="The list of the documents that the questions are about.")
    ] = MANIFEST,
    force: Force = False,
) -> None:
    """Print recall@1, recall@5 and MRR by kind of question, in the document and over the corpus.

    Recall is the share of a question's evidence pages that are found; MRR takes the rank of the
    first of them, however low. The part `original` holds the questions about the document that
    also exists as a scan, and the part `scan` the same questions about the scan. Run
    `make documents` first.
    """
    unknown = set(retriever or ()) - set(RETRIEVERS)
    if unknown:
        raise typer.BadParameter(
            f"unknown retriever {min(unknown)!r}; choose from {', '.join(RETRIEVERS)}"
        )
    try:
        names = list(dict.fromkeys(retriever or RETRIEVERS))
        results, ranks = measure(DocumentStore(store), names, questions, manifest)
        Console().print(table(results))
        if out is not None:
            write_output(out, markdown(results), force=force)
        if details is not None:
            write_output(details, ranks, force=force)
    except (UserError, InfrastructureError) as error:
        Console(stderr=True, soft_wrap=True).print(str(error), markup=False, highlight=False)
        raise typer.Exit(2 if isinstance(error, UserError) else 1) from error


def measure(
    store: DocumentStore,
    names: Sequence[str],
    questions: Path = QUESTIONS,
    manifest: Path = MANIFEST,
) -> tuple[list[Result], str]:
    """Build each retriever and ask all questions.

    Returns:
        the results; and a JSON line for each question asked, with the ranks of its evidence pages
        from 1.

    Raises:
        UserError: the store does not match the manifest, or the file of questions has errors.
    """
    documents = read_manifest(manifest)
    check_store(store, documents)
    asked = read(questions)
    console = Console(stderr=True)
    measured: list[Result] = []
    ranks: list[str] = []
    for name in names:
        start = time.process_time()
        built = RETRIEVERS[name](store)
        indexing = time.process_time() - start
        results, answered, searching = evaluate(name, built, asked, documents)
        console.print(
            f"{name}: {indexing:.1f} s of processor time to index, {1000 * searching:.2f} ms a "
            "search",
            highlight=False,
        )
        measured += results
        ranks += [json.dumps({"retriever": name, **as_ranks(found)}) + "\n" for found in answered]
    return measured, "".join(ranks)


def table(results: Sequence[Result]) -> Table:
    """Return the results as a table for a terminal."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(_COLUMNS):
        shown.add_column(column, justify="left" if position < 2 else "right", overflow="fold")
    for row in _rows(results):
        shown.add_row(*row)
    return shown


def markdown(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table."""
    columns = [column.replace("\n", " ") for column in _COLUMNS]
    lines = [columns, ["---", "---", *["---:"] * (len(_COLUMNS) - 2)], *_rows(results)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _rows(results: Sequence[Result]) -> list[list[str]]:
    rows = []
    for result in results:
        row = [result.retriever, result.part, str(result.scores[Scope.CORPUS].questions)]
        for scope in Scope:
            score = result.scores[scope]
            row += [f"{score.recall_1:.2f}", f"{score.recall_5:.2f}", f"{score.mrr:.2f}"]
        rows.append(row)
    return rows


if __name__ == "__main__":
    typer.run(main)
