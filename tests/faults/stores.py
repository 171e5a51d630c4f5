"""Damaged stores, through reading, `docagent-rl check` and ingesting again."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import InfrastructureError, UserError
from tests.faults.campaign import Campaign, Case, one_by_one
from tests.faults.corpus import OTHER_TEXTS, SETTINGS, TEXTS, make_store
from tests.faults.mutate import Damage, damage
from tests.faults.verdict import Fault, Outcome, Verdict, bad, judged, refused, right

_VALUE = re.compile(rb'":\s*("[^"]*"|[0-9.]+|null|true|false)')
_VALUES = (
    *(b"null", b"-1", b'""', b"1e999", b'"\\ud800"', b"[]", b"{}", b"0", b"true"),
    b'"' + b"0" * 64 + b'"',
)


class Done(StrEnum):
    """What is done to a file of a store, beside damage to its bytes."""

    MISSING = "missing"
    SWAPPED = "swapped with another"
    FOREIGN = "that of another store"
    FOLDER = "a folder in its place"
    LINK = "a link to nowhere in its place"
    EXTRA = "an extra file beside it"
    EDITED = "a value edited"


KINDS = (*Done, *Damage)


@dataclass(frozen=True)
class _Prepared:
    root: Path
    store: Path
    other: Path
    shown: dict[str, object]
    """What can be read, by document."""


def prepare(folder: Path) -> _Prepared:
    store, other = make_store(folder / "a", TEXTS), make_store(folder / "b", OTHER_TEXTS)
    shown = {name: read() for name, read in _readers(store).items()}
    return _Prepared(folder / "a", store.path, other.path, shown)


def attempt(prepared: _Prepared, case: Case, folder: Path) -> Verdict:
    """Each kind of damage in turn to a file of each kind: as often to the few as to the many."""
    store = shutil.copytree(prepared.store, folder / "store")
    done = _damage(store, prepared.other, case.kind(KINDS), case.number // len(KINDS), case.random())
    verdict = judged(lambda: _read(prepared, store, done), str(store))
    audited = judged(lambda: _audited(store), str(store))
    if fault := next((each for each in (verdict, audited) if each.fault), None):
        return fault
    # what is gone with its manifest was taken out, for all that can be seen
    gone = done.startswith("documents/") and "missing" in done
    if verdict.outcome is Outcome.REFUSED and audited.outcome is Outcome.RIGHT and not gone:
        return bad(Fault.WRONG, f"{done}: reading: {verdict.detail}; `check`: all whole")
    return judged(lambda: _healed(prepared, store, done) or verdict, str(store))


def _read(prepared: _Prepared, path: Path, done: str) -> Verdict:
    """Everything in the store is what it was, or refused; what is refused first is the verdict."""
    refusals = []
    for name, read in _readers(DocumentStore(path)).items():
        try:
            if read() != prepared.shown[name]:
                return bad(Fault.WRONG, f"{done}: {name} is another")
        except (UserError, InfrastructureError) as error:
            refusals.append(refused(str(error), str(path)))
    return next((each for each in refusals if each.fault), refusals[0] if refusals else right())


def _audited(path: Path) -> Verdict:
    damages = audit_store(path).damages
    return refused("; ".join(f"{d.path}: {d.problem}" for d in damages)) if damages else right()


def _healed(prepared: _Prepared, path: Path, done: str) -> Verdict | None:
    """Ingesting again makes the store whole, or says why it does not."""
    report = ingest(prepared.root / "inbox", path, settings=SETTINGS, workers=1)
    again = judged(lambda: _read(prepared, path, done))
    if report.failed or again.outcome is not Outcome.RIGHT:
        return bad(Fault.WRONG, f"{done}: ingested again: {report.failed}, {again}")
    left = [str(file) for file in path.rglob("*.tmp")]
    return bad(Fault.LEFTOVER, ", ".join(left)) if left else None


def _readers(store: DocumentStore) -> dict[str, Callable[[], object]]:
    def read(doc_id: str, pages: int) -> list:
        document = store.document(doc_id)
        shown = [document.page(number) for number in range(1, pages + 1)]
        return [document.outline, *((p.size, p.image().tobytes(), p.text(), p.lines()) for p in shown)]

    numbers = {doc_id: len(pages) for doc_id, pages in TEXTS.items()} | {"scans": 2}
    return {each: lambda each=each, pages=pages: read(each, pages) for each, pages in numbers.items()}


def _damage(root: Path, other: Path, kind: Done | Damage, turn: int, random: Random) -> str:
    """Damage one file of `root`; `other` is another store. Returns what was done, in words."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    suffixes = [".json"] if kind is Done.EDITED else sorted({path.suffix for path in files})
    alike = [path for path in files if path.suffix == suffixes[turn % len(suffixes)]]
    path = random.choice(alike)
    data, name = path.read_bytes(), str(path.relative_to(root))
    if kind in (Done.MISSING, Done.FOLDER, Done.LINK):
        path.unlink()
    match kind:
        case Damage():
            path.write_bytes(damage(data, kind, random) if data else b"x")
        case Done.SWAPPED:
            partner = random.choice(alike)
            path.write_bytes(partner.read_bytes())
            partner.write_bytes(data)
            name += f" and {partner.name}"
        case Done.FOREIGN:
            shutil.copyfile(random.choice(sorted(other.rglob(f"*{path.suffix}"))), path)
        case Done.FOLDER:
            path.mkdir()
        case Done.LINK:
            path.symlink_to("nowhere")
        case Done.EXTRA:
            path.with_name(f"0{path.name}").write_bytes(random.choice((b"", b"x", data)))
        case Done.EDITED:
            found, value = random.choice(list(_VALUE.finditer(data))), random.choice(_VALUES)
            path.write_bytes(data[: found.start(1)] + value + data[found.end(1) :])
            name += f" ({found[1][:20]!r} is now {value[:20]!r})"
    return f"{name}: {kind}"


CAMPAIGN = Campaign(
    name="stores",
    what="stores: manifests, page pictures, texts, the marker; bytes, values, swaps, links, missing files",
    short=3 * len(KINDS),
    long=500,
    prepare=prepare,
    attempt=one_by_one(attempt),
    batch=17,
)
