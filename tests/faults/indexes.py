"""Damaged indexes, through loading, searching, `docagent-rl check` and building anew."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.audit import audit_index
from docagent_rl.retrieval.bm25 import BM25Retriever
from tests.faults.campaign import Campaign, Case
from tests.faults.corpus import OTHER_TEXTS, TEXTS, make_store
from tests.faults.folders import contents, damage_folder
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right

_QUERIES = ["the cat", "grow", "table 3", "birds sing", "nothing of this"]


@dataclass(frozen=True, slots=True)
class _Prepared:
    store: DocumentStore
    index: Path
    other: Path
    hits: list[list[Hit]]


def prepare(folder: Path) -> _Prepared:
    store, other = make_store(folder / "a", TEXTS), make_store(folder / "b", OTHER_TEXTS)
    BM25Retriever.build(store).save(folder / "index")
    BM25Retriever.build(other).save(folder / "other")
    return _Prepared(store, folder / "index", folder / "other", _found(BM25Retriever.load(folder / "index")))


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
    # what is beside the files of an index is not of it
    if audited.fault or (audited.outcome is not verdict.outcome and "another store" not in verdict.detail):
        return bad(Fault.WRONG, f"{done}: loading: {verdict}, checking: {audited}")
    if not changed and verdict.detail != "":
        return bad(Fault.WRONG, f"nothing was changed, but {verdict}")
    return _healed(prepared, index, done) or verdict


def _loaded(prepared: _Prepared, index: Path, done: str) -> Verdict:
    retriever = BM25Retriever.load(index)
    retriever.check(prepared.store)
    if _found(retriever) != prepared.hits:
        return bad(Fault.WRONG, f"{done}: other pages are found")
    return right()


def _audited(index: Path) -> Verdict:
    audit = audit_index(index)
    return refused("; ".join(f"{d.path}: {d.problem}" for d in audit.damages)) if audit.damages else right()


def _healed(prepared: _Prepared, index: Path, done: str) -> Verdict | None:
    """An index is made anew in its place, unless there is something else."""
    try:
        BM25Retriever.build(prepared.store).save(index)
    except UserError as error:
        return None if str(index) in str(error) else bad(Fault.UNCLEAR, str(error))
    if _found(BM25Retriever.load(index)) != prepared.hits:
        return bad(Fault.WRONG, f"{done}: the index made anew finds other pages")
    return None


def _found(retriever: BM25Retriever) -> list[list[Hit]]:
    return retriever.search(_QUERIES, top_k=20) + retriever.search(_QUERIES, doc_id="animals", top_k=3)


CAMPAIGN = Campaign(
    name="indexes",
    what="indexes: every file, swaps with other indexes, missing and extra files, header values",
    short=60,
    long=1_000,
    prepare=prepare,
    attempt=attempt,
    batch=40,
    seconds=5,
    memory_gib=2,
)
