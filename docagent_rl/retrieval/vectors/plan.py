"""What of an index is kept, what is copied and what is encoded when its store has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from docagent_rl.retrieval.vectors.header import StoredDocument
from docagent_rl.retrieval.vectors.shards import Shard

PAGES_A_SHARD = 512
"""At most, but for a document that alone has more."""
DEAD_SHARE = 0.25
"""Of a shard's pages that are of no document any more: a shard with more is copied without them."""
MANY_SMALL = 16
"""Shards under a quarter of `PAGES_A_SHARD`: more of them are copied into few."""

Place = tuple[int, int]
"""A shard's position and the first of the document's pages there."""


@dataclass(slots=True)
class Plan:
    """How each document of the store comes into the next version of an index.

    Args:
        kept: where documents are that stay where they are; positions in `shards`.
        shards: that the next version has, in order.
        copied: documents of each new shard that is copied from others.
        sources: where they are copied from, by id.
        encoded: documents of each new shard whose pages are to be encoded.
    """

    kept: dict[str, Place] = field(default_factory=dict)
    shards: list[Shard] = field(default_factory=list)
    copied: list[tuple[StoredDocument, ...]] = field(default_factory=list)
    sources: dict[str, tuple[Shard, int]] = field(default_factory=dict)
    encoded: list[tuple[StoredDocument, ...]] = field(default_factory=list)


def make_plan(wanted: Sequence[StoredDocument], current: Sequence[Shard], finished: Sequence[Shard]) -> Plan:
    """Plan the next version of an index.

    The plan of a build that goes on after it was killed is that of the first attempt, so that the index is
    the same: shards that were finished are gaps in the order of the documents, not part of it.

    Args:
        wanted: the documents of the store, sorted by id.
        current: shards of the index that is there.
        finished: other shards in its folder: of builds that were killed.
    """
    plan = Plan()
    held = _places(wanted, current)
    worn = _worn(wanted, held)
    missing = [document for document in wanted if document.doc_id not in held]
    done = _places(missing, finished)
    used = {shard.name for shard, _ in (*held.values(), *done.values())} - worn
    plan.shards = [shard for shard in (*current, *finished) if shard.name in used]
    position = {shard.name: number for number, shard in enumerate(plan.shards)}
    for doc_id, (shard, first) in (held | done).items():
        if shard.name in position:
            plan.kept[doc_id] = (position[shard.name], first)
        else:
            plan.sources[doc_id] = (shard, first)
    plan.copied = list(_groups([document for document in wanted if document.doc_id in plan.sources], set()))
    plan.encoded = list(_groups(missing, set(done)))
    return plan


def _places(wanted: Sequence[StoredDocument], shards: Sequence[Shard]) -> dict[str, tuple[Shard, int]]:
    """Where documents are as they are wanted, in the first shard that has them."""
    asked = {document.doc_id: document for document in wanted}
    found: dict[str, tuple[Shard, int]] = {}
    for shard in shards:
        first = 0
        for document in shard.header.documents:
            if asked.get(document.doc_id) == document:
                found.setdefault(document.doc_id, (shard, first))
            first += document.pages
    return found


def _worn(wanted: Sequence[StoredDocument], held: Mapping[str, tuple[Shard, int]]) -> set[str]:
    """Names of shards that are copied: with many dead pages, or small and many."""
    living: Counter[str] = Counter()
    for document in wanted:
        if document.doc_id in held:
            living[held[document.doc_id][0].name] += document.pages
    pages = {shard.name: shard.header.pages for shard, _ in held.values()}
    dead = {name for name, count in living.items() if count < (1 - DEAD_SHARE) * pages[name]}
    small = {name for name, count in living.items() if count < PAGES_A_SHARD / 4}
    return dead | small if len(small) > MANY_SMALL else dead


def _groups(documents: Sequence[StoredDocument], gaps: set[str]) -> Iterator[tuple[StoredDocument, ...]]:
    """Consecutive documents of at most `PAGES_A_SHARD` pages; `gaps` are left out and end one."""
    group: list[StoredDocument] = []
    pages = 0
    for document in documents:
        if group and (document.doc_id in gaps or pages + document.pages > PAGES_A_SHARD):
            yield tuple(group)
            group, pages = [], 0
        if document.doc_id not in gaps:
            group.append(document)
            pages += document.pages
    if group:
        yield tuple(group)
