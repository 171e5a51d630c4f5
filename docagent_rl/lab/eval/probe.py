"""Probes: the same questions over pages that are blank or another document's, and the score that is
left.
"""

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import OutlineEntry, PageRef
from docagent_rl.documents.store import DocumentStore, PageContent, PageFace, derive
from docagent_rl.lab.eval.choices import ProbeCondition
from docagent_rl.lab.eval.report.benchmark import authors
from docagent_rl.lab.eval.report.grid import MARK, NOTHING, RULED, TextTable
from docagent_rl.lab.eval.report.paired import Difference, compare
from docagent_rl.lab.eval.report.statistics import DRAWS, FEWEST
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.protocols import protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory
from docagent_rl.samples.sample import Sample

_EDITION = 1
OURS = "docagent_rl_probe"
_VERSION = 1
_HEAD = ("shown", "number", "less as they are", "left", "p", "questions", "documents")
_NOTE = (
    "left: the number as a share of that with the documents as they are; what is left without "
    "pages did not "
    "come from reading them. Brackets: 95 % over resamples of documents, question by question; "
    f"p: none of fewer than {FEWEST} documents"
)


def shown_store(
    condition: ProbeCondition,
    store: DocumentStore,
    samples: Iterable[Sample],
    folder: Path,
    *,
    seed: int = 0,
) -> Path | None:
    """Return a store of the documents under a condition, made once in `folder`; `None` for `AS_IS`.

    `NO_EVIDENCE` takes away the evidence of the samples, `SHUFFLED` exchanges documents by the
    seed.

    Raises:
        UserError: there is but one document to exchange pages with, no question has evidence pages,
            or the folder cannot be written.
    """
    if condition is ProbeCondition.AS_IS:
        return None
    gold = evidence(samples) if condition is ProbeCondition.NO_EVIDENCE else frozenset()
    others = partners(store.doc_ids(), seed) if condition is ProbeCondition.SHUFFLED else {}
    if condition is ProbeCondition.NO_EVIDENCE and not gold:
        raise UserError(
            f"--condition {condition.value}: no question says which pages hold its evidence"
        )
    made_of = [
        _EDITION, condition.value, *map(store.fingerprint, PageContent), sorted(map(str, gold)),
        sorted(others.items()),
    ]  # fmt: skip
    name = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]
    target = folder / f"{condition.value}-{name}"
    if not target.is_dir():
        change = _Change(condition, store, gold, others)
        derive(store, target, store.doc_ids(), change.face, change.outline)
    return target


def evidence(samples: Iterable[Sample]) -> frozenset[PageRef]:
    """Return pages with evidence for any of the questions."""
    return frozenset(
        PageRef(doc_id, page) for sample in samples for doc_id, page in sample.gold_pages
    )


def partners(doc_ids: Sequence[str], seed: int) -> dict[str, str]:
    """Return another document for each, every one taken once.

    Raises:
        UserError: there are fewer than two.
    """
    if len(doc_ids) < 2:
        raise UserError(
            "--condition shuffled exchanges pages between documents: the store holds one alone"
        )
    order = sorted(doc_ids)
    random.Random(f"probe/{seed}").shuffle(order)
    return dict(zip(order, [*order[1:], order[0]], strict=True))


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of documents: white pages for `gold`, those of `others` in the places of a
    document's own.
    """

    condition: ProbeCondition
    store: DocumentStore
    gold: frozenset[PageRef]
    others: Mapping[str, str]

    def face(self, ref: PageRef) -> PageFace:
        match self.condition:
            case ProbeCondition.TEXT_LAYER:
                return PageFace(None, ref)
            case ProbeCondition.SHUFFLED:
                other = self.others[ref.doc_id]
                page = PageRef(other, (ref.page - 1) % self.store.document(other).num_pages + 1)
                return PageFace(page, page)
        white = self.condition is ProbeCondition.BLANK or ref in self.gold
        return PageFace(None, None) if white else PageFace(ref, ref)

    def outline(self, doc_id: str, entries: Sequence[OutlineEntry]) -> Sequence[OutlineEntry]:
        match self.condition:
            case ProbeCondition.BLANK | ProbeCondition.SHUFFLED:
                return ()
            case ProbeCondition.NO_EVIDENCE:
                return [
                    e for e in entries if e.page is None or PageRef(doc_id, e.page) not in self.gold
                ]
        return entries


Left = Mapping[str, Mapping[ProbeCondition, Difference]]
"""Every benchmark's headline number under every condition, less that with the documents as they
are.
"""


def left_of(
    runs: Mapping[ProbeCondition, Sequence[ScoredTrajectory]], *, draws: int = DRAWS, seed: int = 0
) -> Left:
    """Compare runs of the same questions with the first of them, `ProbeCondition.AS_IS`, question
    by question.
    """
    found: dict[str, dict[ProbeCondition, Difference]] = {}
    for dataset in sorted({each.dataset for each in runs[ProbeCondition.AS_IS] if each.scored}):
        headline = protocol_of(dataset).headline
        found[dataset] = {}
        sides = [
            [each for each in run if each.dataset == dataset and each.scored]
            for run in runs.values()
        ]
        for condition, after in zip(runs, sides, strict=True):
            ruled = Author.RULE.value in authors(headline, (*sides[0], *after))
            names = [headline.name] if ruled else []
            compared = compare(sides[0], after, [headline], ruled=names, draws=draws, seed=seed)
            (found[dataset][condition],) = compared.numbers
    return found


def probe_tables(found: Left) -> list[TextTable]:
    """Return a table a benchmark."""
    grids = []
    for dataset, conditions in found.items():
        protocol = protocol_of(dataset)
        rows = []
        for condition, each in conditions.items():
            _, value, change, *counts, p = each.cells
            if condition is ProbeCondition.AS_IS:
                change = p = NOTHING
            share = share_of(each)
            left = NOTHING if share is None else f"{100 * share:.0f} %"
            rows.append((condition.value, value, change, left, p, *counts))
        ruled = any(each.ruled for each in conditions.values())
        title = f"{protocol.name}: {protocol.headline.title}{MARK if ruled else ''}"
        grids.append(TextTable(title, _HEAD, tuple(rows), (_NOTE, *([RULED] if ruled else []))))
    return grids


def share_of(each: Difference) -> float | None:
    """Return the number over that with the documents as they are; `None` where that is 0."""
    return each.second / each.first if each.first and each.second is not None else None


def probe_json(found: Left) -> str:
    """Return all numbers."""
    left = [
        {
            "dataset": dataset,
            "condition": condition.value,
            **each.data(),
            "gain": asdict(each.gain),
            "share": share_of(each),
        }
        for dataset, conditions in found.items()
        for condition, each in conditions.items()
    ]
    return json.dumps({OURS: _VERSION, "left": left}, indent=2, allow_nan=False) + "\n"
