"""Damaged stores, through reading, `docagent-rl check` and ingesting again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.documents import DocumentStore, PageContent
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import InfrastructureError, UserError
from tests.faults.campaign import Campaign, Case
from tests.faults.corpus import OTHER_TEXTS, SETTINGS, TEXTS, make_store
from tests.faults.folders import damage_folder
from tests.faults.verdict import Fault, Outcome, Verdict, bad, judged, refused, right

_HEALED = 3
"""Every third store is ingested again: that takes longer than all the rest."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    root: Path
    other: Path
    shown: dict[str, object]
    """What can be read, by name; see `_shown`."""

    @property
    def store(self) -> Path:
        return self.root / "store"


def prepare(folder: Path) -> _Prepared:
    make_store(folder / "a", TEXTS)
    make_store(folder / "b", OTHER_TEXTS)
    shown = {name: read() for name, read in _readers(DocumentStore(folder / "a" / "store"), TEXTS).items()}
    return _Prepared(folder / "a", folder / "b" / "store", shown)


def attempt(prepared: _Prepared, cases: Sequence[Case], folder: Path) -> list[Verdict]:
    return [_one(prepared, case, folder / str(case.number)) for case in cases]


def _one(prepared: _Prepared, case: Case, store: Path) -> Verdict:
    shutil.copytree(prepared.store, store)
    done = damage_folder(store, prepared.other, case.random())
    verdict = judged(lambda: _read(prepared, store, done), str(store))
    audited = judged(lambda: _audited(store), str(store))
    if verdict.fault or audited.fault:
        return verdict if verdict.fault else audited
    # what is gone with its manifest was taken out, for all that can be seen
    gone = done.startswith("documents/") and "missing" in done
    if verdict.outcome is Outcome.REFUSED and audited.outcome is Outcome.RIGHT and not gone:
        return bad(Fault.WRONG, f"{done}: reading: {verdict.detail}; `check`: all whole")
    if case.number % _HEALED:
        return verdict
    return judged(lambda: _healed(prepared, store, done) or verdict, str(store))


def _read(prepared: _Prepared, path: Path, done: str) -> Verdict:
    """Everything in the store is what it was, or refused; what is refused first is the verdict."""
    store = DocumentStore(path)
    refusals: list[str] = []
    for name, read in _readers(store, TEXTS).items():
        try:
            found = read()
        except (UserError, InfrastructureError) as error:
            refusals.append(str(error))
            continue
        # without a manifest a document is not in the store: an index of the store does not fit any more
        if found != prepared.shown[name] and name not in ("ids", "fingerprints"):
            return bad(Fault.WRONG, f"{done}: {name} is another")
        if found != prepared.shown[name]:
            refusals.append(f"{path}: {name} are others, which indexes notice")
    for message in refusals:
        if (verdict := refused(message, str(path))).fault:
            return verdict
    return refused(refusals[0], str(path)) if refusals else right()


def _audited(store: Path) -> Verdict:
    audit = audit_store(store)
    return refused("; ".join(f"{d.path}: {d.problem}" for d in audit.damages)) if audit.damages else right()


def _healed(prepared: _Prepared, path: Path, done: str) -> Verdict | None:
    """Ingesting again makes the store whole, or says why it does not."""
    report = ingest(prepared.root / "inbox", path, settings=SETTINGS, workers=1)
    if report.failed:
        return bad(Fault.WRONG, f"{done}: ingested again: {report.failed}")
    for name, read in _readers(DocumentStore(path), TEXTS).items():
        try:
            found = read()
        except (UserError, InfrastructureError) as error:
            return bad(Fault.WRONG, f"{done}: ingested again without a word, but: {error}")
        if name not in ("ids", "fingerprints") and found != prepared.shown[name]:
            return bad(Fault.WRONG, f"{done}: after ingesting again {name} is another")
    if left := [str(file) for file in path.rglob("*.tmp")]:
        return bad(Fault.LEFTOVER, ", ".join(left))
    return None


def _readers(store: DocumentStore, texts: dict[str, list[str]]) -> dict[str, Callable[[], object]]:
    readers: dict[str, Callable[[], object]] = {
        "ids": store.doc_ids,
        "fingerprints": lambda: [store.fingerprint(content) for content in PageContent],
    }
    for doc_id, pages in {**texts, "scans": ["", ""]}.items():
        readers[f"the outline of {doc_id}"] = lambda doc_id=doc_id: store.document(doc_id).outline
        for number in range(1, len(pages) + 1):
            readers[f"page {number} of {doc_id}"] = lambda doc_id=doc_id, number=number: _shown(
                store, doc_id, number
            )
    return readers


def _shown(store: DocumentStore, doc_id: str, number: int) -> tuple:
    page = store.document(doc_id).page(number)
    return page.size, page.image().tobytes(), page.text(), page.lines()


CAMPAIGN = Campaign(
    name="stores",
    what="stores: manifests, page pictures, texts, the marker; swaps, missing and extra files",
    short=18,
    long=264,
    prepare=prepare,
    attempt=attempt,
    batch=30,
    seconds=10,
    memory_gib=2,
)
