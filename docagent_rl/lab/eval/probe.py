"""Probes: the same questions over pages that are blank or another document's, and the score that is left."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.store import Face, PageContent, derive
from docagent_rl.lab.eval.choices import Condition
from docagent_rl.lab.eval.report.benchmark import authors
from docagent_rl.lab.eval.report.grid import MARK, NOTHING, RULED, Grid, digits, interval_text, p_text
from docagent_rl.lab.eval.report.paired import compare
from docagent_rl.lab.eval.report.statistics import DRAWS, FEWEST, Interval
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.protocols import protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory
from docagent_rl.samples.sample import Sample

_EDITION = 1
_MARK, _VERSION = "docagent_rl_probe", 1
_HEAD = ("shown", "number", "less as they are", "left", "p", "questions", "documents")
_NOTE = (
    "left: the number as a share of that with the documents as they are; what is left without pages did not "
    "come from reading them. Brackets: 95 % over resamples of documents, question by question; "
    f"p: none of fewer than {FEWEST} documents"
)


def shown_store(
    condition: Condition, store: DocumentStore, samples: Iterable[Sample], folder: Path, *, seed: int = 0
) -> Path | None:
    """Return a store of the documents under a condition, made once in `folder`; `None` for `AS_IS`.

    `NO_EVIDENCE` takes away the evidence of the samples, `SHUFFLED` exchanges documents by the seed.

    Raises:
        UserError: there is but one document to exchange pages with, no question has evidence pages, or the
            folder cannot be written.
    """
    if condition is Condition.AS_IS:
        return None
    gold = evidence(samples) if condition is Condition.NO_EVIDENCE else frozenset()
    others = partners(store.doc_ids(), seed) if condition is Condition.SHUFFLED else {}
    if condition is Condition.NO_EVIDENCE and not gold:
        raise UserError(f"--condition {condition.value}: no question says which pages hold its evidence")
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
    return frozenset(PageRef(doc_id, page) for sample in samples for doc_id, page in sample.gold_pages)


def partners(doc_ids: Sequence[str], seed: int) -> dict[str, str]:
    """Return another document for each, every one taken once.

    Raises:
        UserError: there are fewer than two.
    """
    if len(doc_ids) < 2:
        raise UserError("--condition shuffled exchanges pages between documents: the store holds one alone")
    order = sorted(doc_ids)
    random.Random(f"probe/{seed}").shuffle(order)
    return dict(zip(order, [*order[1:], order[0]], strict=True))


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of documents: white pages for `gold`, those of `others` in the places of a document's own."""

    condition: Condition
    store: DocumentStore
    gold: frozenset[PageRef]
    others: Mapping[str, str]

    def face(self, ref: PageRef) -> Face:
        match self.condition:
            case Condition.TEXT_LAYER:
                return Face(None, ref)
            case Condition.SHUFFLED:
                other = self.others[ref.doc_id]
                page = PageRef(other, (ref.page - 1) % self.store.document(other).num_pages + 1)
                return Face(page, page)
        white = self.condition is Condition.BLANK or ref in self.gold
        return Face(None, None) if white else Face(ref, ref)

    def outline(self, doc_id: str, entries: Sequence[OutlineEntry]) -> Sequence[OutlineEntry]:
        match self.condition:
            case Condition.BLANK:
                return ()
            case Condition.NO_EVIDENCE:
                return [e for e in entries if e.page is None or PageRef(doc_id, e.page) not in self.gold]
            case Condition.SHUFFLED:
                pages = self.store.document(doc_id).num_pages
                found = self.store.document(self.others[doc_id]).outline
                return [entry for entry in found if entry.page is None or entry.page <= pages]
        return entries


@dataclass(frozen=True, slots=True)
class Left:
    """A benchmark's headline number under a condition."""

    dataset: str
    measure: str
    condition: Condition
    value: float | None
    change: Interval
    """The number less that with the documents as they are, question by question."""
    share: float | None
    """The number over that with the documents as they are; `None` where that is 0."""
    p: float | None
    ruled: bool


def left_of(
    runs: Mapping[Condition, Sequence[ScoredTrajectory]], *, draws: int = DRAWS, seed: int = 0
) -> list[Left]:
    """Return every benchmark's headline number under every condition.

    The runs are of the same questions; `Condition.AS_IS` comes first among them.
    """
    found = []
    for dataset in sorted({each.dataset for each in runs[Condition.AS_IS] if each.scored}):
        headline = protocol_of(dataset).headline
        sides = [[each for each in run if each.dataset == dataset and each.scored] for run in runs.values()]
        for condition, after in zip(runs, sides, strict=True):
            (change,) = compare(sides[0], after, [headline], draws=draws, seed=seed).numbers
            share = change.second / change.first if change.first and change.second is not None else None
            ruled = Author.RULE.value in authors(headline, (*sides[0], *after))
            found.append(
                Left(dataset, headline.name, condition, change.second, change.gain, share, change.p, ruled)
            )
    return found


def grids_of(found: Sequence[Left]) -> list[Grid]:
    """Return a table a benchmark."""
    grids = []
    for dataset in dict.fromkeys(each.dataset for each in found):
        protocol, rows = protocol_of(dataset), []
        mine = [each for each in found if each.dataset == dataset]
        for each in mine:
            whole, change, unit = each.condition is Condition.AS_IS, each.change, protocol.headline.unit
            numbers = (
                digits(each.value, unit),
                NOTHING if whole else interval_text(change, unit, sign=True),
                NOTHING if each.share is None else f"{100 * each.share:.0f} %",
                p_text(None if whole else each.p),
            )
            rows.append((each.condition.value, *numbers, f"{change.questions:,}", f"{change.documents:,}"))
        ruled = any(each.ruled for each in mine)
        title = f"{protocol.name}: {protocol.headline.title}{MARK if ruled else ''}"
        grids.append(Grid(title, _HEAD, tuple(rows), (_NOTE, *([RULED] if ruled else []))))
    return grids


def as_json(found: Sequence[Left]) -> str:
    """Return all numbers."""
    data = {_MARK: _VERSION, "left": [asdict(each) for each in found]}
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def is_ours(content: bytes) -> bool:
    """Return True for what `as_json` wrote."""
    try:
        found = json.loads(content)
    except ValueError:
        return False
    return isinstance(found, dict) and _MARK in found
