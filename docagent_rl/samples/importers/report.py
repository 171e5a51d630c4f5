"""The report of an import, row by row and document by document, and the number of a document's first page."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from docagent_rl.samples.importers.native import NativeRow

_EXAMPLES = 5


class PageBase(IntEnum):
    """The number of a document's first page."""

    ZERO = 0
    ONE = 1


@dataclass(frozen=True, slots=True)
class FoundBase:
    """The base that a benchmark's pages count from, and what its citations say of it."""

    base: PageBase
    cited: int
    """Citations of pages."""
    outside: tuple[int, int]
    """Citations outside their document if pages counted from 0, and from 1."""

    @property
    def doubtful(self) -> bool:
        """True if more citations contradict it than the other base."""
        return self.outside[self.base] > self.outside[1 - self.base]

    def __str__(self) -> str:
        return (
            f"pages count from {self.base.value}; of {self.cited} citations {self.outside[0]} are outside "
            f"their document by base 0, {self.outside[1]} by base 1"
        )


def count_outside(cites: Sequence[tuple[int, int | None]], base: PageBase) -> FoundBase:
    """Count the citations that no page answers to.

    Args:
        cites: page number and length of its document, None when it is not known.
        base: the number of a document's first page.
    """
    outside = [
        sum(number < first or (length is not None and number >= length + first) for number, length in cites)
        for first in PageBase
    ]
    return FoundBase(base, len(cites), (outside[0], outside[1]))


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
    warnings: list[str] = field(default_factory=list)

    @property
    def rows_read(self) -> int:
        """All rows."""
        return sum(self.read.values())

    def to_json(self) -> str:
        """Return the report as a file."""
        base = self.base if self.base is not None and self.base.cited else None
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
            "page_base": base
            and {
                "base": base.base.value,
                "citations": base.cited,
                "outside_by_base_0": base.outside[0],
                "outside_by_base_1": base.outside[1],
            },
            "warnings": self.warnings,
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
