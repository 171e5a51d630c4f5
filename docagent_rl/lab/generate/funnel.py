"""Counts of what was dropped on the way from requests to questions, with the reasons."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from docagent_rl.lab.generate.config import EvidenceKind
from docagent_rl.lab.generate.draft import OUTAGES, DroppedQuestion, DropStage, QuestionDraft
from docagent_rl.lab.generate.plan import Gap, Slot

_REQUESTS = (DropStage.NO_REPLY, DropStage.UNREADABLE, DropStage.DECLINED)
"""Stages at which whole requests are dropped."""
_ASKED = "requests for questions"
_WRITTEN = "questions written"
_KEPT = "kept"
_WHOLE = frozenset({_ASKED, _WRITTEN, _KEPT})
_HEADINGS = {
    EvidenceKind.SINGLE_PAGE: "one page",
    EvidenceKind.MULTI_PAGE: "more pages",
    EvidenceKind.UNANSWERABLE: "no answer",
}


@dataclass(slots=True)
class GenerationFunnel:
    """The requests and questions of one run."""

    planned: Sequence[Slot] = ()
    """Requests for questions."""
    written: Sequence[QuestionDraft] = ()
    """Questions in the replies."""
    dropped: Sequence[DroppedQuestion] = ()
    """Requests and questions that were dropped, in the order of the plan."""
    kept: Sequence[QuestionDraft] = ()
    gaps: Sequence[Gap] = ()
    """Kinds of questions for which a document has no pages."""

    def rows(self) -> list[tuple[str, Counter[EvidenceKind]]]:
        """Return the name and the numbers by kind for every row of the table, from planned to
        kept.
        """
        lost: dict[DropStage, Counter[EvidenceKind]] = {stage: Counter() for stage in DropStage}
        for each in self.dropped:
            lost[each.stage][each.slot.kind] += 1
        rows = [(_ASKED, _by_kind(self.planned))]
        rows += [(stage.value, lost[stage]) for stage in _REQUESTS]
        rows.append((_WRITTEN, _by_kind(draft.slot for draft in self.written)))
        rows += [(stage.value, lost[stage]) for stage in DropStage if stage not in _REQUESTS]
        return [*rows, (_KEPT, _by_kind(draft.slot for draft in self.kept))]

    def commonest(self) -> str:
        """Return the most common reasons for dropping requests and questions, as text."""
        found = Counter(f"{each.stage.value}: {each.reason}" for each in self.dropped)
        return "; ".join(f"{count} times {reason}" for reason, count in found.most_common(3))

    def table(self) -> Table:
        """Return the table for the terminal."""
        kinds = [kind for kind in EvidenceKind if any(row[kind] for _, row in self.rows())]
        # a compact style, since nine columns have to fit on a terminal of eighty characters
        table = Table(
            title="From requests to questions",
            box=SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 0, 0, 1),
        )
        table.add_column("", no_wrap=True)
        headings = [_HEADINGS.get(kind, kind.value.replace("_", " ")) for kind in kinds]
        for heading in (*headings, "all"):
            table.add_column(heading, justify="right")
        for name, row in self.rows():
            whole = name in _WHOLE
            sign = "" if whole else "-"
            counts = [*(row[kind] for kind in kinds), row.total()]
            cells = [f"{sign}{count}" if count else "." for count in counts]
            table.add_row(name, *cells, style="bold" if whole else "")
        return table

    @property
    def unanswered(self) -> int:
        """Number of requests and questions that were dropped because there was no reply to keep,
        and which will be asked again.
        """
        return sum(each.stage in OUTAGES for each in self.dropped)

    def to_json(self, settings: str, written: str = "") -> str:
        """Return all counts with the reasons; equal runs give equal text.

        It begins with the digest of the run's `settings`. If some requests will be asked again, it
        also has their number and the SHA-256 of the questions `written`, from which the same
        command recognises its own output.
        """
        lacking = {"count": self.unanswered, "sha256": text_digest(written)}
        counts = {
            name: {kind.value: row[kind] for kind in EvidenceKind if row[kind]}
            for name, row in self.rows()
        }
        data = {
            "settings": settings,
            **({"unanswered": lacking} if self.unanswered else {}),
            "counts": counts,
            "dropped": [_dropped(each) for each in self.dropped],
            "gaps": [
                {"doc_id": gap.doc_id, "kind": gap.kind.value, "why": gap.why} for gap in self.gaps
            ],
        }
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def text_digest(content: str) -> str:
    """Return the SHA-256 of a text as hexadecimal digits."""
    return hashlib.sha256(content.encode()).hexdigest()


def _by_kind(slots: Iterable[Slot]) -> Counter[EvidenceKind]:
    return Counter(slot.kind for slot in slots)


def _dropped(each: DroppedQuestion) -> dict[str, Any]:
    found: dict[str, Any] = {
        "stage": each.stage.value,
        "reason": each.reason,
        "request": each.slot.slot_id,
    }
    if (draft := each.draft) is not None:
        found |= {"question": draft.question, "answer": draft.answer, "pages": list(draft.pages)}
    return found
