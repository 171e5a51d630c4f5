"""Damaged stores and indexes, through reading, `docagent-rl check` and making them anew in their place."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval.audit import audit_index
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.vectors import plan
from docagent_rl.retrieval.vectors.bank import Precision
from docagent_rl.retrieval.vectors.header import Kind, VectorSettings
from docagent_rl.retrieval.vectors.index import VectorIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.faults.campaign import Campaign, Case, one_by_one
from tests.faults.corpus import OTHER_TEXTS, SETTINGS, TEXTS, make_store
from tests.faults.mutate import Damage, damage
from tests.faults.verdict import Fault, Outcome, Verdict, bad, judged, refused, right
from tests.retrieval.vectors.encoders import HashingEncoder, hashing

_QUERIES = ["the cat", "grow", "table 3", "birds sing", "nothing of this"]
_VALUE = re.compile(rb'":\s*("[^"]*"|[0-9.]+|null|true|false)')
_VALUES = (
    *(b"null", b"-1", b'""', b"1e999", b'"\\ud800"', b"[]", b"{}", b"0", b"true"),
    b'"' + b"0" * 64 + b'"',
)


class Done(StrEnum):
    """What is done to a file of a folder, beside damage to its bytes."""

    MISSING = "missing"
    SWAPPED = "swapped with another"
    FOREIGN = "that of another folder"
    FOLDER = "a folder in its place"
    LINK = "a link to nowhere in its place"
    EXTRA = "an extra file beside it"
    EDITED = "a value edited"


KINDS = (*Done, *Damage)


@dataclass(frozen=True)
class Subject:
    """A folder of some kind, whole.

    Args:
        path: of the folder.
        other: of one of the same kind that holds something else.
        readers: all that can be read of such a folder, by name.
        audit: what `docagent-rl check` does.
        make: makes it anew in its place, or raises the reason why not.
        excused: whether reading `(what was done, the refusal)` may fail where the audit finds nothing.
        strict: whether the audit may find what reading does not need.
    """

    path: Path
    other: Path
    readers: Callable[[Path], Mapping[str, Callable[[], object]]]
    audit: Callable
    make: Callable[[Path], None]
    excused: Callable[[str, str], bool]
    strict: bool = False
    shown: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shown.update({name: read() for name, read in self.readers(self.path).items()})


def prepare(folder: Path) -> tuple[Subject, ...]:
    plan.PAGES_A_SHARD = 4
    store, other = make_store(folder / "a", TEXTS), make_store(folder / "b", OTHER_TEXTS)

    def make_index(path: Path, store: DocumentStore = store) -> None:
        BM25Retriever.build(store).save(path)

    def make_vectors(path: Path, store: DocumentStore = store) -> None:
        options = {"kind": Kind.LATE_INTERACTION, "settings": VectorSettings(precision=Precision.INT8)}
        VectorIndex.build(store, hashing(), path, replace=True, two_stages_from=1, **options)

    def read_index(path: Path) -> list:
        retriever = BM25Retriever.load(path)
        retriever.check(store)
        return _found(retriever)

    def read_vectors(path: Path) -> list:
        VectorIndex.open(path).check(store)
        return _found(VectorRetriever(VectorIndex.open(path), HashingEncoder(), candidates=4))

    subjects = [
        Subject(
            store.path,
            other.path,
            _readers_of_a_store,
            audit_store,
            lambda path: _ingest_again(folder / "a" / "inbox", path),
            # what is gone with its manifest was taken out, for all that can be seen
            lambda done, _: done.startswith("documents/") and "missing" in done,
            strict=True,
        )
    ]
    for name, make, read in (("bm25", make_index, read_index), ("vectors", make_vectors, read_vectors)):
        make(folder / name)
        make(folder / f"other {name}", other)
        subjects.append(
            Subject(
                folder / name,
                folder / f"other {name}",
                lambda path, read=read: {"hits": lambda: read(path)},
                audit_index,
                make,
                # an index of another store is whole
                lambda _, said: "another store" in said or "does not belong" in said,
            )
        )
    return tuple(subjects)


def attempt(subjects: tuple[Subject, ...], case: Case, folder: Path) -> Verdict:
    subject, path = case.kind(subjects), folder / "copy"
    kind = KINDS[case.number // len(subjects) % len(KINDS)]
    shutil.copytree(subject.path, path)
    before = contents(path)
    done = damage_folder(path, subject.other, kind, case.random())
    names = (str(path), str(subject.path))
    verdict = judged(lambda: _read(subject, path, done), *names)
    audited = judged(lambda: _audited(subject, path), str(path))
    if fault := next((each for each in (verdict, audited) if each.fault), None):
        return fault
    stricter = subject.strict and verdict.outcome is Outcome.RIGHT
    if audited.outcome is not verdict.outcome and not stricter and not subject.excused(done, verdict.detail):
        return bad(Fault.WRONG, f"{done}: reading: {verdict}, checking: {audited}")
    if contents(path) == before and verdict.outcome is not Outcome.RIGHT:
        return bad(Fault.WRONG, f"nothing was changed, but {verdict}")
    return judged(lambda: _healed(subject, path, done) or verdict, *names)


def _read(subject: Subject, path: Path, done: str) -> Verdict:
    """Everything in the folder is what it was, or refused; what is refused first is the verdict."""
    refusals = []
    for name, read in subject.readers(path).items():
        try:
            found = read()
        except (UserError, InfrastructureError) as error:
            refusals.append(refused(str(error), str(path), str(subject.path)))
            continue
        if found != subject.shown[name]:
            return bad(Fault.WRONG, f"{done}: {name} is another")
    return next((each for each in refusals if each.fault), refusals[0] if refusals else right())


def _audited(subject: Subject, path: Path) -> Verdict:
    damages = subject.audit(path).damages
    return refused("; ".join(f"{d.path}: {d.problem}" for d in damages)) if damages else right()


def _healed(subject: Subject, path: Path, done: str) -> Verdict | None:
    """What is wrong after making the folder anew; a reason why that cannot be is a refusal."""
    try:
        subject.make(path)
    except UserError as error:
        return None if str(path) in str(error) else bad(Fault.UNCLEAR, str(error))
    again = judged(lambda: _read(subject, path, done))
    if again.outcome is not Outcome.RIGHT:
        return bad(Fault.WRONG, f"{done}: made anew without a word, but: {again}")
    left = [str(file) for file in path.rglob("*.tmp")]
    return bad(Fault.LEFTOVER, ", ".join(left)) if left else None


def _ingest_again(inbox: Path, path: Path) -> None:
    report = ingest(inbox, path, settings=SETTINGS, workers=1)
    assert not report.failed, report.failed


def _readers_of_a_store(path: Path) -> dict[str, Callable[[], object]]:
    store = DocumentStore(path)

    def read(doc_id: str, pages: int) -> list:
        document = store.document(doc_id)
        shown = [document.page(number) for number in range(1, pages + 1)]
        return [document.outline, *((p.size, p.image().tobytes(), p.text(), p.lines()) for p in shown)]

    numbers = {doc_id: len(pages) for doc_id, pages in TEXTS.items()} | {"scans": 2}
    return {each: lambda each=each, pages=pages: read(each, pages) for each, pages in numbers.items()}


def _found(retriever: BM25Retriever | VectorRetriever) -> list:
    return retriever.search(_QUERIES, top_k=5) + retriever.search(_QUERIES, doc_id="animals", top_k=3)


def damage_folder(root: Path, other: Path, kind: Done | Damage, random: Random) -> str:
    """Damage one file of `root`; `other` is a folder of the same kind. Returns what was done, in words."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    if kind is Done.EDITED:
        files = [path for path in files if path.suffix == ".json"]
    # as many of each kind of file, not most of the kind that there is most of
    suffix = random.choice(sorted({path.suffix for path in files}))
    alike = [path for path in files if path.suffix == suffix]
    path = random.choice(alike)
    detail = _do(kind, path, alike, other, random)
    return f"{path.relative_to(root)}: {kind}{detail}"


def contents(root: Path) -> dict[str, bytes]:
    """The files of a folder without those that start with a dot, and what they hold."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def _do(kind: Done | Damage, path: Path, alike: list[Path], other: Path, random: Random) -> str:
    data = path.read_bytes()
    if kind in (Done.MISSING, Done.FOLDER, Done.LINK):
        path.unlink()
    match kind:
        case Damage():
            path.write_bytes(damage(data, kind, random) if data else b"x")
        case Done.SWAPPED:
            partner = random.choice(alike)
            path.write_bytes(partner.read_bytes())
            partner.write_bytes(data)
            return f" ({partner.name})"
        case Done.FOREIGN:
            theirs = [file for file in sorted(other.rglob(f"*{path.suffix}")) if file.is_file()]
            same = [file for file in theirs if file.name == path.name]
            shutil.copyfile(random.choice(same or theirs), path)
        case Done.FOLDER:
            path.mkdir()
        case Done.LINK:
            path.symlink_to("nowhere")
        case Done.EXTRA:
            name = random.choice((f"{path.name}.bak", "notes.txt", f"0{path.name}"))
            path.with_name(name).write_bytes(random.choice((b"", b"x", data)))
            return f" ({name})"
        case Done.EDITED:
            found, value = random.choice(list(_VALUE.finditer(data))), random.choice(_VALUES)
            path.write_bytes(data[: found.start(1)] + value + data[found.end(1) :])
            return f" ({found[1][:20]!r} is now {value[:20]!r})"
    return ""


CAMPAIGN = Campaign(
    name="folders",
    what="stores and indexes of words and of vectors: bytes, values, swaps, links, missing and extra files",
    short=3 * len(KINDS),
    long=1_500,
    prepare=prepare,
    attempt=one_by_one(attempt),
    batch=30,
)
