"""Running an import, and its report: rows by reason, and documents."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.objects import file_digest
from docagent_rl.lab.importers.download import unread
from docagent_rl.lab.importers.finishing import finish_sample
from docagent_rl.lab.importers.holdings import Holdings, ImportSettings, gather_documents
from docagent_rl.lab.importers.importer import Importer
from docagent_rl.lab.importers.native import NO_ANSWER, ImportedQuestion, NativeRow, Skip
from docagent_rl.lab.importers.own import named_if_own
from docagent_rl.lab.importers.source import ImportSource
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.window import played_length

_SHOWN_IDS = 200
_EXAMPLES = 5


Places = dict[str, list[str]]
"""Rows, as file and number, by the reason for which they are counted."""


@dataclass(slots=True)
class ImportReport:
    """The results of an import; the same input gives the same report."""

    importer: str
    selection: dict[str, Any]
    """The fields of the `Selection`."""
    first_page: int
    """The number of a document's first page in the benchmark."""
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the question files, by path in the source."""
    unread: list[str] = field(default_factory=list)
    """Question files in the download that were not read: further splits, or another version
    (`download.unread`).
    """
    read: Counter[str] = field(default_factory=Counter)
    """Number of rows, by dataset and split."""
    written: Counter[str] = field(default_factory=Counter)
    """Number of samples, by dataset and split, or by part."""
    skipped: Places = field(default_factory=lambda: defaultdict(list))
    notes: Places = field(default_factory=lambda: defaultdict(list))
    """Rows that were repaired or are unusual, but were kept."""
    documents: dict[str, int] = field(default_factory=dict)
    """Numbers of documents that were wanted, found, missing, or failed."""
    missing: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the content of the report's file."""
        content = {
            "importer": self.importer,
            "selection": self.selection,
            "first_page": self.first_page,
            "files": self.files,
            "files_not_read": self.unread,
            "rows": {
                "read": dict(sorted(self.read.items())),
                "written": dict(sorted(self.written.items())),
                "skipped": _listed(self.skipped),
                "notes": _listed(self.notes),
            },
            "documents": {**self.documents, "missing_ids": self.missing, "failed_ids": self.failed},
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def run_import(
    importer: Importer, path: Path, settings: ImportSettings
) -> tuple[dict[str, list[Sample]], ImportReport]:
    """Read a benchmark, ingest its documents and return its samples by part, with a report.

    Nothing is written except documents in the store. An interrupted import can be started again:
    stored documents are kept, and the samples are the same. If the selection has no parts, there is
    a single part with an empty name.

    Raises:
        UserError: files are missing or damaged, their number of rows differs from the released one,
            or no sample is left.
    """
    return _Import(importer, ImportSource(path), settings).run()


class _Import:
    def __init__(self, importer: Importer, source: ImportSource, settings: ImportSettings) -> None:
        self.importer = importer
        self.source = source
        self.settings = settings
        first = importer.first_page if settings.first_page is None else settings.first_page
        self.report = ImportReport(importer.name, asdict(settings.selection), first)

    def run(self) -> tuple[dict[str, list[Sample]], ImportReport]:
        report = self.report
        read = self._drafts()
        with named_if_own(self.importer, "revise"):
            self.importer.revise(read)
        drafts = []
        for draft in read:  # before documents are gathered: refused questions need none
            refusal = self.settings.selection.refusal(draft.split, answerable=draft.answerable)
            if refusal is None:
                drafts.append(draft)
            else:
                report.skipped[refusal].append(_place(draft.row))
        parts, left = self.settings.selection.part(self._samples(drafts, self._holdings(drafts)))
        if left:
            report.skipped["not in the sample, nor in any part"] = [
                sample.question_id for sample in left
            ]
        samples = [sample for part in parts.values() for sample in part]
        for name, part in parts.items():
            report.written.update(name or _part(sample.dataset, sample.split) for sample in part)
        root = self.source.root
        report.files = {
            each.relative_to(root).as_posix(): file_digest(each)
            for each in sorted(set(self.source.read))
        }
        report.unread = unread(root, self.source.read, self.importer.files)
        if not samples:
            most = sorted(report.skipped.items(), key=lambda each: -len(each[1]))[:5]
            reasons = "; ".join(f"{reason}: {len(places)}" for reason, places in most)
            rows = f"none of {report.read.total()} rows became a sample"
            raise UserError(
                f"{self.source.path}: {rows} ({reasons or 'there are no rows'}); change the "
                "selection, or check the download"
            )
        return parts, report

    def _drafts(self) -> list[ImportedQuestion]:
        report = self.report
        drafts: list[ImportedQuestion] = []
        seen: set[tuple] = set()
        with named_if_own(self.importer, "rows"):
            for row in self.importer.rows(self.source):
                report.read[_part(row.dataset, row.split or "unknown split")] += 1
                try:
                    drafts.append(self._draft(row, seen))
                except Skip as reason:
                    report.skipped[str(reason)].append(_place(row))
        if not self.settings.any_count:
            self._check_counts()
        return drafts

    def _draft(self, row: NativeRow, seen: set[tuple]) -> ImportedQuestion:
        if not isinstance(row.values, Mapping):
            raise Skip("the row is not an object")
        with named_if_own(self.importer, _place(row)):
            draft = self.importer.draft(row)
        if draft.hidden and not self.settings.hidden:
            raise Skip(NO_ANSWER)
        key = row.dataset, draft.split, draft.question_id
        if key in seen:
            raise Skip("an earlier row has the same question id")
        seen.add(key)
        return draft

    def _check_counts(self) -> None:
        for (dataset, split), known in sorted(self.importer.released.items()):
            part = _part(dataset, split)
            if (read := self.report.read.get(part, 0)) and read != known:
                raise UserError(
                    f"{self.source.path}: {part} has {read} rows, but the released files have "
                    f"{known}: the download is incomplete or another version. Download it again, "
                    "or use --any-count to accept it"
                )

    def _holdings(self, drafts: Sequence[ImportedQuestion]) -> Holdings:
        report = self.report
        with named_if_own(self.importer, "documents"):
            found = self.importer.documents(self.source, drafts)
        wanted = {doc_id for draft in drafts for doc_id in _needed(draft)}
        if not self.importer.corpus:
            found = {name: document for name, document in found.items() if name in wanted}
        holdings = gather_documents(
            found, wanted, self.source.root, self.settings, sizes=self.importer.sizes
        )
        wanted = wanted | set(found)
        there = {*found, *holdings.lengths}
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

    def _samples(self, drafts: Iterable[ImportedQuestion], holdings: Holdings) -> list[Sample]:
        selection = self.settings.selection
        samples = []
        rows = []
        for draft in drafts:
            try:
                samples.append(self._sample(draft, holdings))
                rows.append(draft.row)
            except Skip as reason:
                self.report.skipped[str(reason)].append(_place(draft.row))
            else:
                for note in dict.fromkeys(draft.notes):
                    self.report.notes[note].append(_place(draft.row))
        excluded = selection.exclude(samples, self.settings.exclude)
        for row, held in zip(rows, excluded, strict=True):
            if held:
                self.report.skipped[f"its {selection.unit.value} is in an excluded set"].append(
                    _place(row)
                )
        return [sample for sample, held in zip(samples, excluded, strict=True) if not held]

    def _sample(self, draft: ImportedQuestion, holdings: Holdings) -> Sample:
        needed = _needed(draft)
        if failed := needed & set(holdings.failed):
            raise Skip(f"its document cannot be used: {holdings.failed[min(failed)][:120]}")
        if self.settings.store is not None and needed - set(holdings.lengths):
            raise Skip("its document is missing")
        sample = finish_sample(draft, self.report.first_page, holdings)
        if refusal := self.settings.selection.length_refusal(played_length(sample.extra)):
            raise Skip(refusal)
        return sample


def _needed(draft: ImportedQuestion) -> set[str]:
    return {draft.doc_id, *(name for name, _ in draft.cites)}


def _place(row: NativeRow) -> str:
    """Name a row by its file and its number from 0."""
    return f"{row.path.name}:{row.number}"


def _listed(counted: Places) -> list[dict[str, Any]]:
    """Return reasons by name, each with its number of rows and the first few, for JSON."""
    return [
        {"reason": reason, "rows": len(places), "examples": places[:_EXAMPLES]}
        for reason, places in sorted(counted.items())
    ]


def _part(dataset: str, split: str) -> str:
    return f"{dataset}/{split}"
