"""Damaged indexes of vectors, through opening, searching, `docagent-rl check` and building anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.audit import audit_index
from docagent_rl.retrieval.vectors import plan
from docagent_rl.retrieval.vectors.bank import Precision
from docagent_rl.retrieval.vectors.header import Kind, VectorSettings
from docagent_rl.retrieval.vectors.index import VectorIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.faults.campaign import Campaign, Case
from tests.faults.corpus import OTHER_TEXTS, TEXTS, make_store
from tests.faults.folders import contents, damage_folder
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right
from tests.retrieval.vectors.encoders import HashingEncoder, hashing

_QUERIES = ["the cat", "grow", "table 3", "birds sing", "nothing of this"]
_PAGES_A_SHARD = 4


@dataclass(frozen=True, slots=True)
class _Prepared:
    store: DocumentStore
    index: Path
    other: Path
    hits: list[list[Hit]]


def prepare(folder: Path) -> _Prepared:
    plan.PAGES_A_SHARD = _PAGES_A_SHARD
    store, other = make_store(folder / "a", TEXTS), make_store(folder / "b", OTHER_TEXTS)
    _build(store, folder / "index")
    _build(other, folder / "other")
    return _Prepared(store, folder / "index", folder / "other", _found(folder / "index"))


def attempt(prepared: _Prepared, cases: Sequence[Case], folder: Path) -> list[Verdict]:
    return [_one(prepared, case, folder / str(case.number)) for case in cases]


def _one(prepared: _Prepared, case: Case, index: Path) -> Verdict:
    shutil.copytree(prepared.index, index)
    before = contents(index)
    done = damage_folder(index, prepared.other, case.random())
    changed = contents(index) != before
    verdict = judged(lambda: _loaded(prepared, index, done), str(index), str(prepared.store.path))
    if verdict.fault:
        return verdict
    audited = judged(lambda: _audited(index), str(index))
    # an index of another store is whole
    if audited.fault or (audited.outcome is not verdict.outcome and "does not belong" not in verdict.detail):
        return bad(Fault.WRONG, f"{done}: opening: {verdict}, checking: {audited}")
    if not changed and verdict.detail != "":
        return bad(Fault.WRONG, f"nothing was changed, but {verdict}")
    return _healed(prepared, index, done) or verdict


def _loaded(prepared: _Prepared, index: Path, done: str) -> Verdict:
    VectorIndex.open(index).check(prepared.store)
    if _found(index) != prepared.hits:
        return bad(Fault.WRONG, f"{done}: other pages are found")
    return right()


def _audited(index: Path) -> Verdict:
    audit = audit_index(index)
    return refused("; ".join(f"{d.path}: {d.problem}" for d in audit.damages)) if audit.damages else right()


def _healed(prepared: _Prepared, index: Path, done: str) -> Verdict | None:
    """An index is made anew in its place, unless there is something else."""
    try:
        _build(prepared.store, index)
    except UserError as error:
        return None if str(index) in str(error) else bad(Fault.UNCLEAR, str(error))
    if _found(index) != prepared.hits:
        return bad(Fault.WRONG, f"{done}: the index made anew finds other pages")
    return None


def _build(store: DocumentStore, path: Path) -> None:
    make: Callable[[], HashingEncoder] = hashing()
    settings = VectorSettings(precision=Precision.INT8)
    kind = Kind.LATE_INTERACTION
    VectorIndex.build(store, make, path, kind=kind, settings=settings, replace=True, two_stages_from=1)


def _found(index: Path) -> list[list[Hit]]:
    retriever = VectorRetriever(VectorIndex.open(index), HashingEncoder(), candidates=4)
    return retriever.search(_QUERIES, top_k=5) + retriever.search(_QUERIES, doc_id="animals", top_k=3)


CAMPAIGN = Campaign(
    name="vector_indexes",
    what="indexes of vectors: headers, vectors, offsets, factors, clusters; swaps, links, missing and extra "
    "files",
    short=60,
    long=1_000,
    prepare=prepare,
    attempt=attempt,
    batch=30,
    seconds=8,
    memory_gib=4,
)
