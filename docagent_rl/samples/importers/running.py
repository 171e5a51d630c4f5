"""An import from beginning to end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from docagent_rl.base.errors import UserError
from docagent_rl.samples.importers.finishing import finished
from docagent_rl.samples.importers.holdings import Gathering, Holdings
from docagent_rl.samples.importers.importer import Importer
from docagent_rl.samples.importers.native import Draft, NativeRow, Skip
from docagent_rl.samples.importers.report import FoundBase, ImportReport, PageBase, count_outside
from docagent_rl.samples.importers.source import Source
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.selection import Selection

_SHOWN_IDS = 200


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """The choices of an import."""

    gathering: Gathering = field(default_factory=Gathering)
    selection: Selection = field(default_factory=Selection)
    exclude: Sequence[Sample] = ()
    """Questions, or by the selection's unit documents, that must not be among them."""
    datasets: frozenset[str] = frozenset()
    """Keep these alone; empty: all that the benchmark has."""
    any_count: bool = False
    """Take files with another number of rows than the released ones."""
    page_base: PageBase | None = None
    """Number of a document's first page in the benchmark; None: as documented."""
    progress: bool = False


def run_import(
    importer: Importer, path: Path, settings: ImportSettings
) -> tuple[dict[str, list[Sample]], ImportReport]:
    """Read a benchmark, ingest its documents and return its samples by part, with a report.

    Nothing is written but documents into the store. An interrupted import is started again: documents that
    are stored stay, and the samples come out the same. Without parts in the selection there is one part
    without a name.

    Raises:
        UserError: files are missing or damaged, their number of rows is not the released one, or no sample is
            left.
    """
    return _Import(importer, Source(path), settings).run()


class _Import:
    def __init__(self, importer: Importer, source: Source, settings: ImportSettings) -> None:
        self.importer, self.source, self.settings = importer, source, settings
        self.report = ImportReport(importer.name, asdict(settings.selection))

    def run(self) -> tuple[dict[str, list[Sample]], ImportReport]:
        report = self.report
        read = self._drafts()
        self.importer.settle(read)
        drafts = []
        for draft in read:  # documents of those that are refused are not needed
            hidden, answerable = draft.hidden, draft.answerable
            refusal = self.settings.selection.early_refusal(draft.split, answerable=answerable, hidden=hidden)
            if refusal is None:
                drafts.append(draft)
            else:
                report.skipped.add(refusal, draft.row)
        holdings = self._holdings(drafts)
        report.base = self._base(drafts, holdings)
        parts, left = self.settings.selection.part(self._samples(drafts, holdings, report.base))
        if left:
            report.skipped.counts["not in the sample, nor in any part"] += len(left)
        samples = [sample for part in parts.values() for sample in part]
        for name, part in parts.items():
            report.written.update(name or _part(sample.dataset, sample.split) for sample in part)
        root = self.source.root
        report.files = {
            each.relative_to(root).as_posix(): _digest(each) for each in sorted(set(self.source.read))
        }
        if not samples:
            reasons = "; ".join(
                f"{reason}: {count}" for reason, count in report.skipped.counts.most_common(5)
            )
            rows = f"none of {report.rows_read} rows gives a sample"
            raise UserError(f"{self.source.path}: {rows} ({reasons or 'no rows'})")
        return parts, report

    def _drafts(self) -> list[Draft]:
        settings, report = self.settings, self.report
        drafts: list[Draft] = []
        seen: dict[tuple, str] = {}
        others: set[str] = set()
        with Progress(console=Console(stderr=True), disable=not settings.progress, transient=True) as bars:
            for row in bars.track(self.importer.rows(self.source), description="Reading questions"):
                if settings.datasets and row.dataset not in settings.datasets:
                    others.add(row.dataset)
                    continue
                report.read[_part(row.dataset, row.split or "unknown split")] += 1
                try:
                    drafts.append(self._draft(row, seen))
                except Skip as reason:
                    report.skipped.add(str(reason), row)
        if others and not report.read:
            wanted = ", ".join(sorted(settings.datasets))
            raise UserError(f"--dataset {wanted}: {self.source.path} has {', '.join(sorted(others))}")
        self._check_counts()
        return drafts

    def _draft(self, row: NativeRow, seen: dict[tuple, str]) -> Draft:
        if not isinstance(row.values, Mapping):
            raise Skip("the row is no object")
        draft = self.importer.draft(row)
        # a question id names one question: the first row stays
        key = row.dataset, draft.split, draft.question_id
        content = repr((draft.doc_id, draft.question, draft.gold, draft.native_pages))
        digest = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()
        if key in seen:
            raise Skip("the row is there twice" if seen[key] == digest else "another row has its question id")
        seen[key] = digest
        for note in draft.notes:
            self.report.notes.add(note, row)
        return draft

    def _check_counts(self) -> None:
        for (dataset, split), known in sorted(self.importer.rows_known.items()):
            part = _part(dataset, split)
            if (read := self.report.read.get(part, 0)) and read != known:
                sentence = f"{part} has {read} rows, the released files have {known}"
                if not self.settings.any_count:
                    raise UserError(
                        f"{self.source.path}: {sentence}: the download is not whole, or another version; "
                        "--any-count takes it as it is"
                    )
                self.report.warnings.append(sentence)

    def _holdings(self, drafts: Sequence[Draft]) -> Holdings:
        found, report = self.importer.documents(self.source, drafts), self.report
        wanted = {doc_id for draft in drafts for doc_id in _needed(draft)}
        if not self.importer.corpus:
            found = {name: document for name, document in found.items() if name in wanted}
        gathering = replace(self.settings.gathering, sizes=self.importer.sizes)
        holdings = gathering.gather(found, wanted, self.source.root)
        wanted, there = wanted | set(found), {*found, *holdings.lengths}
        missing = sorted(wanted - there - set(holdings.failed))
        report.documents = {
            "wanted": len(wanted),
            "found": len((wanted & there) - set(holdings.failed)),
            "missing": len(missing),
            "failed": len(holdings.failed),
        }
        report.missing = missing[:_SHOWN_IDS]
        report.failed = dict(sorted(holdings.failed.items())[:_SHOWN_IDS])
        return holdings

    def _base(self, drafts: Iterable[Draft], holdings: Holdings) -> FoundBase:
        cites = []
        for draft in drafts:
            stated = {draft.doc_id: draft.num_pages}
            for cite in draft.cites:
                cites.append((cite.number, holdings.lengths.get(cite.doc_id, stated.get(cite.doc_id))))
        chosen = self.settings.page_base
        base = count_outside(cites, self.importer.base if chosen is None else chosen)
        if base.doubtful and chosen is None and not self.importer.base_certain:
            self.report.warnings.append(f"{base}; --page-base 0 or 1 sets how they are counted")
        return base

    def _samples(self, drafts: Iterable[Draft], holdings: Holdings, base: FoundBase) -> list[Sample]:
        selection, samples, rows = self.settings.selection, [], []
        for draft in drafts:
            try:
                samples.append(self._sample(draft, holdings, base.base))
                rows.append(draft.row)
            except Skip as reason:
                self.report.skipped.add(str(reason), draft.row)
        excluded = selection.exclude(samples, self.settings.exclude)
        for row, held in zip(rows, excluded, strict=True):
            if held:
                self.report.skipped.add(f"its {selection.unit.value} is in an excluded set", row)
        return [sample for sample, held in zip(samples, excluded, strict=True) if not held]

    def _sample(self, draft: Draft, holdings: Holdings, base: PageBase) -> Sample:
        needed = _needed(draft)
        if failed := needed & set(holdings.failed):
            raise Skip(f"its document cannot be used: {holdings.failed[min(failed)][:120]}")
        if self.settings.gathering.store is not None and needed - set(holdings.lengths):
            raise Skip("its document is missing")
        sample = finished(draft, base, holdings, self.report.notes)
        if not draft.hidden and sample.answerable is None and not sample.answers:
            raise Skip("there is no reference answer")
        if refusal := self.settings.selection.refusal(sample, hidden=draft.hidden):
            raise Skip(refusal)
        return sample


def _needed(draft: Draft) -> set[str]:
    """Return the ids of the documents of a question."""
    return {draft.doc_id, *(cite.doc_id for cite in draft.cites)}


def _part(dataset: str, split: str) -> str:
    return f"{dataset}/{split}"


def _digest(path: Path) -> str:
    if path.suffix == ".parquet":  # these may hold pictures of many GB: their footers tell versions apart
        import pyarrow.parquet as pq

        meta = pq.read_metadata(path)
        groups = [meta.row_group(group).total_byte_size for group in range(meta.num_row_groups)]
        return "footer:" + hashlib.sha256(json.dumps([meta.num_rows, groups]).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
