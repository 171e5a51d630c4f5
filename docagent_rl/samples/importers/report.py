"""The report of an import: rows by reason, and documents."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.samples.importers.native import NativeRow

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
    selection: dict[str, Any]
    """The fields of the `Selection`."""
    first_page: int
    """The number of a document's first page in the benchmark."""
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
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the report as a file."""
        content = {
            "importer": self.importer,
            "selection": self.selection,
            "first_page": self.first_page,
            "files": self.files,
            "rows": {
                "read": dict(sorted(self.read.items())),
                "written": dict(sorted(self.written.items())),
                "skipped": self.skipped.listed(),
                "notes": self.notes.listed(),
            },
            "documents": {**self.documents, "missing_ids": self.missing, "failed_ids": self.failed},
            "warnings": self.warnings,
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
