"""The report of an import, row by row and document by document, and the number of a document's first page."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from docagent_rl.samples.importers.native import NativeRow

_CLEARLY = 5
"""Factor by which more citations must contradict the documented base than the other one to overrule it."""
_EXAMPLES = 5


class PageBase(IntEnum):
    """The number of a document's first page."""

    ZERO = 0
    ONE = 1


@dataclass(frozen=True, slots=True)
class FoundBase:
    """The base that a benchmark's pages count from, and its evidence."""

    base: PageBase
    expected: PageBase
    cited: int
    """Citations of pages."""
    measured: int
    """Citations in documents whose length is known."""
    outside: tuple[int, int]
    """Citations outside their document if pages counted from 0, and from 1."""
    set_by_option: bool = False
    certain: bool = False
    """The documented base was checked on the released files."""

    @property
    def doubtful(self) -> bool:
        """True if it is not the documented one, or more citations contradict it than the other.

        Of a benchmark whose base is certain no doubt arises before documents are measured.
        """
        if self.certain and not self.measured:  # stray zeros alone, and no length that last pages could pass
            return False
        contradicted = self.outside[self.base] > self.outside[1 - self.base]
        return (self.base is not self.expected and not self.set_by_option) or contradicted

    def __str__(self) -> str:
        how = "as documented" if self.base is self.expected else f"documented is {self.expected.value}"
        how = f"as --page-base says, {how}" if self.set_by_option else how
        return (
            f"pages count from {self.base.value} ({how}); {self.cited} citations, {self.measured} of them in "
            f"documents of known length: {self.outside[0]} are outside by base 0, {self.outside[1]} by base 1"
        )


def find_base(
    cites: Iterable[tuple[int, int | None]],
    expected: PageBase,
    *,
    certain: bool,
    chosen: PageBase | None = None,
) -> FoundBase:
    """Find out how pages are counted: as documented, unless clearly more citations contradict it.

    Args:
        cites: page number and length of its document, None when it is not known.
        expected: the documented base.
        certain: it was checked on the released file, whose errors must not overrule it.
        chosen: holds whatever is found.
    """
    listed = list(cites)
    measured = sum(length is not None for _, length in listed)

    def outside(base: PageBase) -> int:
        """Count the citations that no page answers to."""
        return sum(
            number < base or (length is not None and number > length - 1 + base) for number, length in listed
        )

    counts = {base: outside(base) for base in PageBase}
    clearly = 0 < counts[expected] >= counts[PageBase(1 - expected)] * _CLEARLY
    found = PageBase(1 - expected) if clearly and measured and not certain else expected
    return FoundBase(
        found if chosen is None else chosen,
        expected,
        len(listed),
        measured,
        (counts[PageBase.ZERO], counts[PageBase.ONE]),
        chosen is not None,
        certain,
    )


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
                "documented": base.expected.value,
                "set_by_option": base.set_by_option,
                "citations": base.cited,
                "citations_measured": base.measured,
                "outside_by_base_0": base.outside[0],
                "outside_by_base_1": base.outside[1],
            },
            "answers_on_pages": self.text_check or None,
            "warnings": self.warnings,
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
