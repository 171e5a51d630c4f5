"""`docagent-rl data import` and `docagent-rl data leakage`."""

import re
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_outputs
from docagent_rl.base.text import shown
from docagent_rl.commands.asking import resumable
from docagent_rl.commands.data_curate import questions_of
from docagent_rl.commands.options import AnswerableOnly, argument, option
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.lab.importers.holdings import ImportSettings
from docagent_rl.lab.importers.running import ImportReport, run_import
from docagent_rl.samples.leakage import find_leaks
from docagent_rl.samples.parquet import parquet_bytes
from docagent_rl.samples.sample import Sample, Split, json_lines
from docagent_rl.samples.selection import REST, Selection, SplitUnit

_DEFAULTS = RenderSettings()

_PART = re.compile(r"([A-Za-z0-9_]{1,40})=([0-9]{1,9}|rest)")


def import_command(
    benchmark: str = argument(
        ...,
        f"Benchmark in SRC: {', '.join(Benchmark)}; or package.module:CLASS, your own importer.",
    ),
    src: Path = argument(..., "The downloaded folder, or one file of questions in it."),
    store: Path | None = option(None, "Document store; missing documents are ingested from SRC."),
    out: Path | None = option(None, "File to write, .jsonl or .parquet; default: <name>.jsonl."),
    split: Split | None = option(None, "Keep the questions of this split."),
    min_pages: int | None = option(
        None, "Keep questions about documents of this many pages or more.", min=1
    ),
    max_pages: int | None = option(
        None, "Keep questions about documents of at most this many pages.", min=1
    ),
    answerable_only: AnswerableOnly = False,
    limit: int | None = option(None, "Keep this many samples, drawn at random by --seed.", min=1),
    part: list[str] | None = option(
        None,
        "Write N random samples, or with NAME=rest all others, to the file <out>-NAME; may be "
        "repeated.",
        metavar="NAME=N",
    ),
    by: SplitUnit = option(SplitUnit.QUESTION, "Unit of --part and --exclude."),
    seed: int = option(0, "Seed of --limit and --part."),
    exclude: list[Path] | None = option(
        None,
        "Leave out questions that are in this file of samples or trajectories; with --by document, "
        "those about its documents; may be repeated.",
    ),
    any_count: bool = option(
        False, "Accept files whose number of rows differs from the release.", "--any-count"
    ),
    hidden: bool = option(
        False,
        "Keep questions whose answers DUDE and MP-DocVQA withhold, for `report --submissions`.",
        "--hidden",
    ),
    page_base: int | None = option(
        None, "Number that SRC gives to a document's first page.", min=0, max=1
    ),
    dpi: int = option(_DEFAULTS.dpi, "Resolution of ingested PDF pages, in pixels per inch."),
    workers: int | None = option(None, "Processes that read documents.", min=1),
    force: Force = False,
) -> None:
    """Convert a downloaded public benchmark to samples; see docs/benchmarks.md.

    docs/extending.md explains how to write an importer of your own, which is named as
    package.module:CLASS.

    In samples, pages count from 1 and boxes are fractions of the page. Rows that yield no sample
    are counted by reason, on the terminal and in <out>.report.json. After an interruption, run the
    same command again.

    Example: docagent-rl data import mmlongbench_doc MMLongBench-Doc/ --store data/store --out
    data/mmlb.jsonl
    """
    importer = get_importer(benchmark)
    target = out or Path(f"{importer.name}.jsonl")
    if target.suffix not in (".jsonl", ".parquet"):
        raise UserError(f"--out {target}: name a .jsonl or a .parquet file")
    changes: dict[str, Any] = {"split": split, "min_pages": min_pages, "max_pages": max_pages}
    changes |= {"sample": limit, "answerable_only": answerable_only, "parts": _parts(part)}
    given = {name: value for name, value in changes.items() if value}
    settings = ImportSettings(
        store=store,
        render=RenderSettings(dpi=dpi),
        workers=workers,
        progress=True,
        selection=Selection(seed=seed, unit=by, **given),
        exclude=[sample for path in exclude or () for sample in questions_of(path)],
        any_count=any_count,
        hidden=hidden,
        first_page=page_base,
    )
    with resumable():
        parts, report = run_import(importer, src, settings)
    _write(target, parts, report, force=force)
    Console().print(_table(report))


def leakage_command(
    first: Path = argument(
        ..., "Samples, .jsonl or .parquet; or trajectories: a run, or its kept.jsonl."
    ),
    second: Path = argument(..., "The set that should share nothing with the first."),
    store: Path | None = option(
        None, "Document store, to look up the digests of the documents' files."
    ),
    by: SplitUnit = option(
        SplitUnit.DOCUMENT, "What must not be shared: questions, or documents as well."
    ),
) -> None:
    """Look for documents and questions that two sets share; exit with status 2 if there are any.

    Documents are compared by id and by the digests of their files, questions by their words.
    Questions that are alike but about different documents, with different answers, are only
    counted.

    Example: docagent-rl data leakage train.jsonl test.jsonl --store data/store
    """
    sets = {path: questions_of(path) for path in (first, second)}
    for path, samples in sets.items():
        if not samples:
            raise UserError(f"{path} contains no sample: there is nothing to compare")
    documents = None if store is None else DocumentStore(store, image_cache=0)
    shared, alike = find_leaks(sets[first], sets[second], store=documents)
    if shared:
        table = Table("First", "Second", "Same by", title="Documents in both", title_justify="left")
        for each in shared:
            table.add_row(shown(each.first), shown(each.second), each.how.value)
        Console().print(table)
    leaking = [pair for pair in alike if pair.leaks]
    if leaking:
        title = "Questions that give each other away"
        table = Table("First", "Second", "Alike", "Question", title=title, title_justify="left")
        for pair in leaking:
            ids = shown(pair.first.question_id), shown(pair.second.question_id)
            table.add_row(*ids, f"{pair.score:.0f}", shown(pair.first.question[:120]))
        Console().print(table)
    typer.echo(
        f"{len(shared)} documents in both, {len(leaking)} pairs of questions that give each "
        f"other away, {len(alike) - len(leaking)} pairs that are only alike"
    )
    if leaking or (shared and by is SplitUnit.DOCUMENT):
        raise typer.Exit(2)


def _parts(options: list[str] | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in options or ():
        match = _PART.fullmatch(text)
        if match is None or match[1] in found or match[2] == "0":
            raise UserError(f"--part {text}: expected NAME=N or NAME=rest, each name once")
        found[match[1]] = REST if match[2] == "rest" else int(match[2])
    if list(found.values()).count(REST) > 1:
        raise UserError("--part: only one part can take the rest")
    return found


def _write(
    target: Path, parts: dict[str, list[Sample]], report: ImportReport, *, force: bool
) -> None:
    files = {
        target.with_name(f"{target.stem}-{name}{target.suffix}") if name else target: samples
        for name, samples in parts.items()
    }
    contents: dict[Path, bytes | str] = {
        path: parquet_bytes(samples) if path.suffix == ".parquet" else json_lines(samples)
        for path, samples in files.items()
    }
    contents[target.with_name(f"{target.stem}.report.json")] = report.to_json()
    write_outputs(contents, force=force)
    for path, samples in files.items():
        typer.echo(f"{path}: {len(samples)} samples")


def _table(report: ImportReport) -> Table:
    title = shown(
        f"{report.importer}: {sum(report.written.values())} samples of {report.read.total()} rows"
    )
    table = Table("What", "Count", "First", title=title, title_justify="left")
    for label, counts in (("rows", report.read), ("samples", report.written)):
        for name, count in sorted(counts.items()):
            table.add_row(shown(f"{label} of {name}"), str(count), "")
    for label, counted in (("skipped", report.skipped), ("note", report.notes)):
        for reason, places in sorted(counted.items()):
            table.add_row(
                shown(f"{label}: {reason}"), str(len(places)), shown(", ".join(places[:2]))
            )
    for name, count in report.documents.items():
        table.add_row(f"documents {name}", str(count), "")
    table.add_row("number of the first page", str(report.first_page), "")
    if report.unread:
        table.add_row(
            "other files, not read", str(len(report.unread)), shown(", ".join(report.unread[:3]))
        )
    return table
