"""An import from beginning to end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from docagent_rl.base.errors import UserError
from docagent_rl.records.importers.finishing import finished
from docagent_rl.records.importers.holdings import Gathering, Holdings
from docagent_rl.records.importers.importer import Importer
from docagent_rl.records.importers.native import Draft, NativeRow, Skip
from docagent_rl.records.importers.paging import PageBase, find_base
from docagent_rl.records.importers.report import ImportReport
from docagent_rl.records.importers.selection import Selection
from docagent_rl.records.importers.source import Source
from docagent_rl.records.importers.text_check import check_texts
from docagent_rl.records.record import Record

_SHOWN_IDS = 200


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """How an import goes.

    Args:
        gathering: what becomes of documents.
        selection: which questions are taken.
        exclude: questions, or by the selection's unit documents, that must not be among them.
        datasets: keep these alone; empty: all that the benchmark has.
        any_count: take files with another number of rows than the released ones.
        page_base: number of a document's first page in the benchmark; `None` finds it out.
        progress: show bars.
    """

    gathering: Gathering = field(default_factory=Gathering)
    selection: Selection = field(default_factory=Selection)
    exclude: Sequence[Record] = ()
    datasets: frozenset[str] = frozenset()
    any_count: bool = False
    page_base: PageBase | None = None
    progress: bool = False


def run_import(
    importer: Importer, path: Path, settings: ImportSettings
) -> tuple[dict[str, list[Record]], ImportReport]:
    """Read a benchmark, take in its documents and make its records.

    Nothing is written but documents into the store. An interrupted import is started again: documents that
    are stored stay, and the records come out the same.

    Returns:
        Records by part (one without a name unless the selection has parts), and what happened.

    Raises:
        UserError: files are missing or damaged, their number of rows is not the released one, or no record is
            left.
    """
    source = Source(path)
    report = ImportReport(importer.name, asdict(settings.selection))
    drafts = _drafts(importer, source, settings, report)
    importer.settle(drafts)
    drafts = _taken(drafts, settings.selection, report)
    found = importer.documents(source, drafts)
    wanted = {draft.doc_id for draft in drafts} | {cite.doc_id for draft in drafts for cite in draft.cites}
    if not importer.corpus:
        found = {name: document for name, document in found.items() if name in wanted}
    holdings = replace(settings.gathering, sizes=importer.sizes).gather(found, wanted, source.root)
    _report_documents(report, wanted | set(found), holdings, {*found, *holdings.lengths})
    records = _records(importer, drafts, holdings, settings, report)
    parts, left = settings.selection.part(records)
    if left:
        report.skipped.counts["not in the sample, nor in any part"] += len(left)
    for name, part in parts.items():
        for record in part:
            report.written[name or f"{record.dataset}/{record.split.value}"] += 1
    report.files = {
        each.relative_to(source.root).as_posix(): _digest(each) for each in sorted(set(source.read))
    }
    if not any(parts.values()):
        reasons = "; ".join(f"{reason}: {count}" for reason, count in report.skipped.counts.most_common(5))
        raise UserError(f"{path}: none of {report.rows_read} rows gives a record ({reasons or 'no rows'})")
    if settings.gathering.store is not None:
        check_texts(report, [record for part in parts.values() for record in part], settings.gathering.store)
    return parts, report


def _drafts(
    importer: Importer, source: Source, settings: ImportSettings, report: ImportReport
) -> list[Draft]:
    drafts: list[Draft] = []
    seen: dict[tuple, str] = {}
    others: set[str] = set()
    with Progress(console=Console(stderr=True), disable=not settings.progress, transient=True) as bars:
        for row in bars.track(importer.rows(source), description="Reading questions"):
            if settings.datasets and row.dataset not in settings.datasets:
                others.add(row.dataset)
                continue
            report.read[_part(row)] += 1
            try:
                if not isinstance(row.values, Mapping):
                    raise Skip("the row is no object")
                draft = importer.draft(row)
                _refuse_repeated(draft, seen)
            except Skip as reason:
                report.skipped.add(str(reason), row)
                continue
            for note in draft.notes:
                report.notes.add(note, row)
            drafts.append(draft)
    if others and not report.read:
        told = ", ".join(sorted(settings.datasets))
        raise UserError(f"--dataset {told}: {source.path} has {', '.join(sorted(others))}")
    _check_counts(importer, report, source, any_count=settings.any_count)
    return drafts


def _taken(drafts: list[Draft], selection: Selection, report: ImportReport) -> list[Draft]:
    """Drafts that the selection does not refuse at once: documents of others need not be taken in."""
    taken = []
    for draft in drafts:
        refusal = selection.early_refusal(draft.split, answerable=draft.answerable, hidden=draft.hidden)
        if refusal is None:
            taken.append(draft)
        else:
            report.skipped.add(refusal, draft.row)
    return taken


def _refuse_repeated(draft: Draft, seen: dict[tuple, str]) -> None:
    """A question id names one question: of rows that are equal the first stays, and of others, too."""
    key = draft.row.dataset, draft.split, draft.question_id
    content = repr((draft.doc_id, draft.question, draft.gold, draft.native_pages))
    digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()
    if key in seen:
        raise Skip("the row is there twice" if seen[key] == digest else "another row has its question id")
    seen[key] = digest


def _part(row: NativeRow) -> str:
    return f"{row.dataset}/{row.split.value if row.split else 'unknown split'}"


def _check_counts(importer: Importer, report: ImportReport, source: Source, *, any_count: bool) -> None:
    for (dataset, split), known in sorted(importer.rows_known.items()):
        part = f"{dataset}/{split.value}"
        if (read := report.read.get(part, 0)) and read != known:
            sentence = f"{part} has {read} rows, the released files have {known}"
            if not any_count:
                raise UserError(
                    f"{source.path}: {sentence}: the download is not whole, or another version; "
                    "--any-count takes it as it is"
                )
            report.warnings.append(sentence)


def _records(
    importer: Importer,
    drafts: list[Draft],
    holdings: Holdings,
    settings: ImportSettings,
    report: ImportReport,
) -> list[Record]:
    cites = [
        (
            cite.number,
            holdings.lengths.get(cite.doc_id, draft.num_pages if cite.doc_id == draft.doc_id else None),
        )
        for draft in drafts
        for cite in draft.cites
    ]
    told = settings.page_base
    report.base = find_base(cites, importer.base, certain=importer.base_certain, told=told)
    if report.base.doubtful:
        report.warnings.append(f"{report.base}; --page-base 0 or 1 sets how they are counted")
    records, rows = [], []
    for draft in drafts:
        try:
            record = _record(draft, holdings, settings, report)
        except Skip as reason:
            report.skipped.add(str(reason), draft.row)
        else:
            records.append(record)
            rows.append(draft.row)
    taken = settings.selection.exclude(records, settings.exclude)
    for row, held in zip(rows, taken, strict=True):
        if held:
            report.skipped.add(f"its {settings.selection.unit.value} is in an excluded set", row)
    return [record for record, held in zip(records, taken, strict=True) if not held]


def _record(draft: Draft, holdings: Holdings, settings: ImportSettings, report: ImportReport) -> Record:
    needed = {draft.doc_id, *(cite.doc_id for cite in draft.cites)}
    if failed := needed & set(holdings.failed):
        raise Skip(f"its document cannot be used: {holdings.failed[min(failed)][:120]}")
    if settings.gathering.store is not None and needed - set(holdings.lengths):
        raise Skip("its document is missing")
    assert report.base is not None
    record = finished(draft, report.base.base, holdings, report.notes)
    if not draft.hidden and record.answerable is None and not record.answers:
        raise Skip("there is no reference answer")
    if refusal := settings.selection.refusal(record, hidden=draft.hidden):
        raise Skip(refusal)
    return record


def _report_documents(report: ImportReport, wanted: set[str], holdings: Holdings, there: set[str]) -> None:
    missing = sorted(wanted - there - set(holdings.failed))
    report.documents = {
        "wanted": len(wanted),
        "found": len((wanted & there) - set(holdings.failed)),
        "missing": len(missing),
        "failed": len(holdings.failed),
    }
    report.missing = missing[:_SHOWN_IDS]
    report.failed = dict(sorted(holdings.failed.items())[:_SHOWN_IDS])


def _digest(path: Path) -> str:
    if path.suffix == ".parquet":  # these may hold pictures of many GB: their footers tell versions apart
        import pyarrow.parquet as pq

        meta = pq.read_metadata(path)
        groups = [meta.row_group(group).total_byte_size for group in range(meta.num_row_groups)]
        return "footer:" + hashlib.sha256(json.dumps([meta.num_rows, groups]).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
