"""`docagent-rl data`: make, check, convert and look at questions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from docagent_rl.data.outline_questions import outline_records
from docagent_rl.data.parquet import read_parquet, validate_parquet, write_parquet
from docagent_rl.data.record import Record, Split, read_jsonl, write_jsonl
from docagent_rl.data.synth import Difficulty, SynthSettings, synthesize
from docagent_rl.data.validation import ValidationReport, validate_jsonl
from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError

app = typer.Typer(help="Make, check, convert and look at questions about documents.", no_args_is_help=True)

_DEFAULTS = SynthSettings()
_SHOWN_PROBLEMS = 50

_File = Annotated[Path, typer.Argument(help="Records as .parquet or .jsonl.")]
_Out = Annotated[Path, typer.Option(help="File to write.")]


@app.command()
def synth(
    out: Annotated[Path, typer.Option(help="Directory to write; new, empty, or the same corpus before.")],
    documents: Annotated[int, typer.Option(help="Number of documents.")] = _DEFAULTS.documents,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = _DEFAULTS.seed,
    questions_per_document: Annotated[
        int, typer.Option(help="Questions for each document at most.")
    ] = _DEFAULTS.questions_per_document,
    difficulty: Annotated[
        list[Difficulty] | None,
        typer.Option(help="easy 3-5 pages, medium 8-14, hard 20-40. Repeat to mix; default: all three."),
    ] = None,
    val_fraction: Annotated[float, typer.Option(help="Documents for validation.")] = _DEFAULTS.val_fraction,
    test_fraction: Annotated[float, typer.Option(help="Documents for the test.")] = _DEFAULTS.test_fraction,
) -> None:
    """Write PDF reports with questions whose answers and evidence are known by construction.

    The directory gets pdfs/ and records.jsonl. The same command again finds the corpus complete, or goes on
    where it was interrupted.

    Example: docagent-rl data synth --out data/synth --documents 24 --seed 7 --difficulty easy
    """
    settings = SynthSettings(
        documents=documents,
        seed=seed,
        questions_per_document=questions_per_document,
        difficulties=tuple(difficulty) if difficulty else _DEFAULTS.difficulties,
        val_fraction=val_fraction,
        test_fraction=test_fraction,
    )
    try:
        report = synthesize(out, settings, progress=True)
    except KeyboardInterrupt:
        Console(stderr=True).print("Interrupted. The same command goes on from here.")
        raise typer.Exit(130) from None
    typer.echo(
        f"{report.documents} documents ({report.built} written now), {report.pages} pages, "
        f"{report.records} questions in {report.out}"
    )
    typer.echo(f"splits: {_counts(report.splits)}")
    typer.echo(f"kinds: {_counts(report.kinds)}")


@app.command()
def validate(
    file: _File,
    store: Annotated[Path | None, typer.Option(help="Document store that must hold the evidence.")] = None,
) -> None:
    """Check columns, records and evidence; the exit status is 2 when something is wrong.

    Example: docagent-rl data validate data/train.parquet --store data/store
    """
    documents = DocumentStore(store) if store is not None else None
    check = validate_jsonl if file.suffix == ".jsonl" else validate_parquet
    report = check(file, store=documents)
    if not report.ok:
        _print_problems(report)
        raise typer.Exit(2)
    typer.echo(f"{file}: {report.rows} rows are well ({_counts(report.counts)})")


@app.command()
def convert(
    records: Annotated[Path, typer.Argument(help="Records, one JSON object a line.")],
    out: _Out,
    split: Annotated[Split | None, typer.Option(help="Keep the questions of this split alone.")] = None,
    answerable_only: Annotated[
        bool, typer.Option("--answerable-only", help="Leave out questions known to have no answer.")
    ] = False,
    store: Annotated[Path | None, typer.Option(help="Document store that must hold the evidence.")] = None,
) -> None:
    """Write records as the Parquet file that the trainer reads; nothing is written when a record is bad.

    Example: docagent-rl data convert data/synth/records.jsonl --out data/train.parquet --split train
    """
    report = validate_jsonl(records, store=DocumentStore(store) if store is not None else None)
    if not report.ok:
        _print_problems(report)
        raise typer.Exit(2)
    kept = [
        record
        for record in read_jsonl(records)
        if split in (None, record.split) and not (answerable_only and record.answerable is False)
    ]
    if not kept:
        raise UserError(f"{records}: no record is left to write (split {split}, {_counts(report.counts)})")
    write_parquet(kept, out)
    typer.echo(f"{out}: {len(kept)} of {report.rows} records")


@app.command()
def outline(
    store: Annotated[Path, typer.Option(help="Document store to read bookmarks from.")],
    out: _Out,
    limit: Annotated[int, typer.Option(help="Questions for each document at most.")] = 5,
    seed: Annotated[int, typer.Option(help="Same seed, same choice of bookmarks.")] = 0,
    split: Annotated[Split, typer.Option(help="Split of all questions.")] = Split.TEST,
) -> None:
    """Ask on which page the sections of stored PDFs begin, going by their bookmarks.

    Example: docagent-rl data outline --store data/store --out data/outline.jsonl
    """
    documents = DocumentStore(store)
    found: list[Record] = []
    for doc_id in documents.doc_ids():
        found += outline_records(documents.document(doc_id), limit=limit, seed=seed, split=split)
    if not found:
        raise UserError(f"{store}: no bookmark of any document can be asked for; nothing was written")
    write_jsonl(found, out)
    asked = Counter(record.doc_id for record in found)
    typer.echo(f"{out}: {len(found)} questions about {len(asked)} of {len(documents)} documents")


@app.command()
def show(
    file: _File,
    rows: Annotated[int, typer.Option(help="Number of records.")] = 5,
    offset: Annotated[int, typer.Option(help="Records to skip.")] = 0,
) -> None:
    """Print a few records.

    Example: docagent-rl data show data/train.parquet --rows 3
    """
    records = read_jsonl(file) if file.suffix == ".jsonl" else read_parquet(file)
    chosen = records[max(offset, 0) :][: max(rows, 0)]
    title = Text(f"{file.name}: {len(chosen)} of {len(records)} records")
    table = Table(title=title, show_lines=True, expand=True)
    widths = {"id": 2, "split": 1, "question": 4, "answers": 2, "evidence": 2, "sources": 2}
    for heading, ratio in widths.items():
        table.add_column(heading, ratio=ratio, min_width=5, overflow="fold")
    for record in chosen:
        # Text, since a question may hold square brackets, which rich would take for markup
        table.add_row(*map(Text, _cells(record)))
    Console().print(table)


def _cells(record: Record) -> tuple[str, ...]:
    answers = "(no answer in the document)" if record.answerable is False else " | ".join(record.answers)
    pages = ", ".join(
        f"p. {page}" if doc_id == record.doc_id else f"{doc_id} p. {page}"
        for doc_id, page in sorted(record.gold_pages)
    )
    sources = ", ".join(record.evidence_sources)
    return record.question_id, record.split.value, record.question, answers, pages, sources


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _print_problems(report: ValidationReport) -> None:
    console = Console(stderr=True, soft_wrap=True)
    for problem in report.problems[:_SHOWN_PROBLEMS]:
        console.print(problem, markup=False, highlight=False)
    if (hidden := len(report.problems) - _SHOWN_PROBLEMS) > 0:
        console.print(f"... and {hidden} more", markup=False)
