"""Probes: play the same questions with pages that are blank or from another document, and compare
the scores.
"""

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import OutlineEntry, PageRef
from docagent_rl.documents.store import DocumentStore, PageContent, PageReplacement, derive
from docagent_rl.lab.eval.choices import ProbeCondition
from docagent_rl.lab.eval.report.benchmark import authors
from docagent_rl.lab.eval.report.grid import MARK, NOTHING, RULED, TextTable
from docagent_rl.lab.eval.report.paired import Difference, compare
from docagent_rl.lab.eval.report.statistics import DRAWS, FEWEST
from docagent_rl.lab.eval.scoring.protocols import protocol_of
from docagent_rl.lab.eval.scoring.roles import Author
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory
from docagent_rl.samples.sample import Sample

_EDITION = 1
OURS = "docagent_rl_probe"
_VERSION = 1
_HEAD = ("shown", "number", "difference from as_is", "left", "p", "questions", "documents")
_NOTE = (
    "left: the number as a share of that with unchanged documents; what is left without pages did "
    "not come from reading them. Brackets: 95 % over resamples of documents, question by question; "
    f"p: not given for fewer than {FEWEST} documents"
)


def shown_store(
    condition: ProbeCondition,
    store: DocumentStore,
    samples: Iterable[Sample],
    folder: Path,
    *,
    seed: int = 0,
) -> Path | None:
    """Return a store of the documents under a condition, created once in `folder`; `None` for
    `AS_IS`.

    `NO_EVIDENCE` blanks the evidence pages of the samples, `SHUFFLED` exchanges documents at random
    by `seed`.

    Raises:
        UserError: there is only one document, so that no pages can be exchanged, no question names
            evidence pages, or the folder cannot be written.
    """
    if condition is ProbeCondition.AS_IS:
        return None
    gold = evidence(samples) if condition is ProbeCondition.NO_EVIDENCE else frozenset()
    others = partners(store.doc_ids(), seed) if condition is ProbeCondition.SHUFFLED else {}
    if condition is ProbeCondition.NO_EVIDENCE and not gold:
        raise UserError(
            f"--condition {condition.value}: no question has evidence pages; use questions with "
            "`evidence_pages`, or another condition"
        )
    made_of = [
        _EDITION, condition.value, *map(store.fingerprint, PageContent), sorted(map(str, gold)),
        sorted(others.items()),
    ]  # fmt: skip
    name = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]
    target = folder / f"{condition.value}-{name}"
    if not target.is_dir():
        change = _Change(condition, store, gold, others)
        derive(store, target, store.doc_ids(), change.replacement, change.outline)
    return target


def evidence(samples: Iterable[Sample]) -> frozenset[PageRef]:
    """Return the pages with evidence for any of the questions."""
    return frozenset(
        PageRef(doc_id, page) for sample in samples for doc_id, page in sample.gold_pages
    )


def partners(doc_ids: Sequence[str], seed: int) -> dict[str, str]:
    """Return another document for each document, using every one exactly once.

    Raises:
        UserError: there are fewer than two.
    """
    if len(doc_ids) < 2:
        raise UserError(
            "--condition shuffled exchanges pages between documents, but the store has only one: "
            "add documents, or choose another condition"
        )
    order = sorted(doc_ids)
    random.Random(f"probe/{seed}").shuffle(order)
    return dict(zip(order, [*order[1:], order[0]], strict=True))


@dataclass(frozen=True, slots=True)
class _Change:
    """The change of the documents: `gold` pages turn white, or each document gets the pages of
    another one from `others`.
    """

    condition: ProbeCondition
    store: DocumentStore
    gold: frozenset[PageRef]
    others: Mapping[str, str]

    def replacement(self, ref: PageRef) -> PageReplacement:
        match self.condition:
            case ProbeCondition.TEXT_LAYER:
                return PageReplacement(None, ref)
            case ProbeCondition.SHUFFLED:
                other = self.others[ref.doc_id]
                page = PageRef(other, (ref.page - 1) % self.store.document(other).num_pages + 1)
                return PageReplacement(page, page)
        white = self.condition is ProbeCondition.BLANK or ref in self.gold
        return PageReplacement(None, None) if white else PageReplacement(ref, ref)

    def outline(self, doc_id: str, entries: Sequence[OutlineEntry]) -> Sequence[OutlineEntry]:
        match self.condition:
            case ProbeCondition.BLANK | ProbeCondition.SHUFFLED:
                return ()
            case ProbeCondition.NO_EVIDENCE:
                return [
                    e for e in entries if e.page is None or PageRef(doc_id, e.page) not in self.gold
                ]
        return entries


Changes = Mapping[str, Mapping[ProbeCondition, Difference]]
"""Headline number of each benchmark under each condition, compared with that for unchanged
documents.
"""


def compare_conditions(
    runs: Mapping[ProbeCondition, Sequence[ScoredTrajectory]], *, draws: int = DRAWS, seed: int = 0
) -> Changes:
    """Compare runs over the same questions with the run `ProbeCondition.AS_IS`, question by
    question.
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


def probe_tables(found: Changes) -> list[TextTable]:
    """Return one table per benchmark."""
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
    """Return the number as a share of that with unchanged documents; `None` if the latter is 0."""
    return each.second / each.first if each.first and each.second is not None else None


def probe_json(found: Changes) -> str:
    """Return all numbers as JSON."""
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
