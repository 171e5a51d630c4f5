"""The report of an import, row by row and document by document."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.samples.importers.native import NativeRow
from docagent_rl.samples.importers.paging import FoundBase

_EXAMPLES = 5


@dataclass(slots=True)
class Tally:
    """Reasons with their counts and the first rows of each."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, reason: str, row: NativeRow) -> None:
        """Count a row."""
        self.counts[reason] += 1
        if len(self.examples[reason]) < _EXAMPLES:
            self.examples[reason].append(f"{row.path.name}:{row.number}")

    def listed(self) -> list[dict[str, Any]]:
        """Return the reasons in their order by name, for JSON."""
        return [
            {"reason": reason, "rows": count, "examples": self.examples[reason]}
            for reason, count in sorted(self.counts.items())
        ]


@dataclass(slots=True)
class ImportReport:
    """The results of an import; the same input gives the same report."""

    importer: str
    selection: dict[str, Any] = field(default_factory=dict)
    """The fields of the `Selection`."""
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files of questions, by path in the source."""
    read: Counter[str] = field(default_factory=Counter)
    """Rows by dataset and split."""
    written: Counter[str] = field(default_factory=Counter)
    """Samples by dataset and split, or by part."""
    skipped: Tally = field(default_factory=Tally)
    notes: Tally = field(default_factory=Tally)
    """Rows that were mended or are unusual, and were kept."""
    documents: dict[str, int] = field(default_factory=dict)
    """Numbers of documents that were wanted, found, missing, unreadable."""
    missing: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    base: FoundBase | None = None
    text_check: dict[str, int] = field(default_factory=dict)
    """Sampled answers whose text stands on the cited page, on the one before and on the one after."""
    gold_check: dict[str, Any] = field(default_factory=dict)
    """Gold answers as predictions, by the benchmark's own metric; filled in by who knows metrics."""
    warnings: list[str] = field(default_factory=list)

    @property
    def rows_read(self) -> int:
        """All rows."""
        return sum(self.read.values())

    @property
    def rows_skipped(self) -> int:
        """Rows without a sample."""
        return sum(self.skipped.counts.values())

    def to_json(self) -> str:
        """Return the report as a file."""
        content = {
            "importer": self.importer,
            "selection": self.selection,
            "files": dict(sorted(self.files.items())),
            "rows": {
                "read": dict(sorted(self.read.items())),
                "written": dict(sorted(self.written.items())),
                "skipped": self.skipped.listed(),
                "notes": self.notes.listed(),
            },
            "documents": {**self.documents, "missing_ids": self.missing, "failed_ids": self.failed},
            "page_base": None if self.base is None or not self.base.cited else _base(self.base),
            "answers_on_pages": self.text_check or None,
            "gold_as_prediction": self.gold_check or None,
            "warnings": self.warnings,
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _base(found: FoundBase) -> dict[str, Any]:
    return {
        "base": found.base.value,
        "documented": found.expected.value,
        "set_by_option": found.set_by_option,
        "citations": found.cited,
        "citations_measured": found.measured,
        "outside_by_base_0": found.outside[0],
        "outside_by_base_1": found.outside[1],
    }
