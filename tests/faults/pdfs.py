"""Damaged, endless and encrypted PDFs, through ingest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from docagent_rl.documents import DocumentStore, PageRef, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.documents.report import IngestReport
from tests.faults.campaign import Campaign, Case
from tests.faults.mutate import Damage, damage
from tests.faults.pdf_files import ALGORITHMS, STRANGE, drawn, encrypted
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right

_OBJECT = re.compile(rb"(?<![0-9])[0-9]+ 0 obj.*?endobj\s", re.DOTALL)
_PASSWORD = "secret"
_OPTIONS = {
    "settings": RenderSettings(dpi=72),
    "limits": IngestLimits(seconds=60, memory_gib=1, pixels=4_000_000),
    "ocr": OcrSettings(OcrMode.NEVER),
    "workers": 1,
}


@dataclass(frozen=True, slots=True)
class _Sound:
    name: str
    data: bytes
    pages: tuple[np.ndarray, ...]
    """What its pages show."""
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tried:
    name: str
    data: bytes
    sound: _Sound | None = None
    """What it was made from."""
    whole: bool = False
    """It is to be stored as what it was made from, or refused."""
    needs: str = ""
    """It has to be refused, naming this."""


def prepare(folder: Path) -> list[_Sound]:
    plain = drawn(3, compress=False)
    files = {"plain": plain, "compressed": drawn(3, compress=True), "long": drawn(20, compress=True)}
    files |= {f"{algorithm} for all": encrypted(plain, algorithm, "", "owner") for algorithm in ALGORITHMS}
    for number, data in enumerate(files.values()):
        (folder / f"{number}.pdf").write_bytes(data)
    report = ingest(folder, folder / "store", **_OPTIONS)
    assert not report.failed, report.failed
    store = DocumentStore(folder / "store")
    return [_sound(store, str(number), name, data) for number, (name, data) in enumerate(files.items())]


def attempt(sounds: list[_Sound], cases: Sequence[Case], folder: Path) -> list[Verdict]:
    """Ingest a document a case, and one that is sound."""
    inbox = folder / "inbox"
    inbox.mkdir()
    tried = [make(sounds, case, folder / "strange.pdf") for case in cases]
    for number, item in enumerate(tried):
        (inbox / f"d{number}.pdf").write_bytes(item.data)
    (inbox / "sound.pdf").write_bytes(sounds[0].data)
    report = ingest(inbox, folder / "store", **_OPTIONS)
    store = DocumentStore(folder / "store")
    if _compared(store, "sound", sounds[0]):
        return [bad(Fault.WRONG, "a sound document among them is not stored as it is")] * len(cases)
    if left := [str(path) for path in folder.rglob("*.tmp")]:
        return [bad(Fault.LEFTOVER, ", ".join(left))] * len(cases)
    return [
        judged(lambda number=number, item=item: _verdict(item, f"d{number}", report, store))
        for number, item in enumerate(tried)
    ]


_OBJECTS = ("deleted", "there twice", "replaced", "damaged")
_ENDS = tuple(
    ("end", kind) for kind in Damage if kind not in (Damage.NONE, Damage.CUT, Damage.APPEND, Damage.EMPTY)
)
_LOCKS = tuple((algorithm, asks) for algorithm in ALGORITHMS for asks in (False, True))
KINDS = (*STRANGE, *Damage, *_OBJECTS, *_ENDS, *_LOCKS)


def make(sounds: Sequence[_Sound], case: Case, path: Path) -> _Tried:
    """The file of a case."""
    random, sound = case.random(), case.random().choice(sounds)
    match case.kind(KINDS):
        case Damage() as kind:
            whole = kind in (Damage.NONE, Damage.APPEND)
            return _Tried(f"{sound.name}, {kind}", damage(sound.data, kind, random), sound, whole)
        case ("end", kind):  # which says where everything is
            start = max(sound.data.rfind(b"\nxref"), sound.data.rfind(b"startxref") - 400, 0)
            data = sound.data[:start] + damage(sound.data[start:], kind, random)
            return _Tried(f"{sound.name}, end of file: {kind}", data, sound)
        case (algorithm, asks):
            return _locked(random.choice(sounds[:3]), algorithm, asks, damaged=case.number >= len(KINDS))
        case str(how) if how in _OBJECTS:
            return _with_an_object(sound, how, random)
        case name:
            STRANGE[name](path)
            return _Tried(name, path.read_bytes(), needs="encrypted" if name.startswith("encrypted") else "")


def _with_an_object(sound: _Sound, how: str, random: Random) -> _Tried:
    """One that is gone, there twice, in the place of another or with damage of its own."""
    found = list(_OBJECT.finditer(sound.data))
    one, other = random.choice(found), random.choice(found)
    changed = {
        "deleted": b"",
        "there twice": one[0] + one[0],
        "replaced": one[0].split(b" ", 1)[0] + b" " + other[0].split(b" ", 1)[1],
        "damaged": damage(one[0], random.choice((Damage.FLIP, Damage.ZERO, Damage.NOISE)), random),
    }[how]
    data = sound.data[: one.start()] + changed + sound.data[one.end() :]
    return _Tried(f"{sound.name}, object {one[0][:8]!r} {how}", data, sound)


def _locked(sound: _Sound, algorithm: str, asks: bool, damaged: bool) -> _Tried:
    """Encrypted, with and without a password for the reader."""
    data = encrypted(sound.data, algorithm, _PASSWORD if asks else "", "owner")
    name = f"{sound.name} by {algorithm}{' with password' if asks else ''}{' damaged' if damaged else ''}"
    if damaged:
        return _Tried(name, damage(data, Damage.FLIP, Random(name)), sound)
    return _Tried(name, data, sound, whole=True, needs="asks for a password" if asks else "")


def _verdict(item: _Tried, doc_id: str, report: IngestReport, store: DocumentStore) -> Verdict:
    (reason, *_) = [f.reason for f in report.failed if f.name == f"{doc_id}.pdf"] or [None]
    if reason is not None:
        if item.whole and not item.needs and not item.name.endswith(Damage.APPEND):
            return bad(Fault.WRONG, f"{item.name} is sound, but: {reason}")
        return refused(reason, *([item.needs] if item.needs else []))
    if doc_id not in report.ingested:
        return bad(Fault.WRONG, f"{item.name} is neither stored nor reported")
    if item.needs:
        return bad(Fault.WRONG, f"{item.name} is stored")
    if item.sound is None:
        store.page(PageRef(doc_id, 1)).image()
        return right(item.name)
    difference = _compared(store, doc_id, item.sound)
    if item.whole and difference:
        return bad(Fault.WRONG, f"{item.name}: {difference}")
    # a PDF has no checksums: a changed letter is a letter; pages that are lost or white are seen
    document = store.document(doc_id)
    if document.num_pages != len(item.sound.pages):
        return bad(Fault.WRONG, f"{item.name}: {document.num_pages} pages, not {len(item.sound.pages)}")
    for number in range(1, document.num_pages + 1):
        if np.asarray(document.page(number).image()).min() > 250:
            return bad(Fault.WRONG, f"{item.name}: page {number} is white")
    return right(f"{item.name}: {difference or 'the same'}")


def _compared(store: DocumentStore, doc_id: str, sound: _Sound) -> str:
    """How a stored document differs from a sound one; nothing when it does not."""
    if doc_id not in store:
        return "not stored"
    document = store.document(doc_id)
    if document.num_pages != len(sound.pages):
        return f"{document.num_pages} pages, not {len(sound.pages)}"
    for number, (picture, text) in enumerate(zip(sound.pages, sound.texts, strict=True), start=1):
        page = document.page(number)
        shown = np.asarray(page.image(), dtype=float)
        if page.text() != text or shown.shape != picture.shape or np.abs(shown - picture).mean() > 1:
            return f"page {number} is another"
    return ""


def _sound(store: DocumentStore, doc_id: str, name: str, data: bytes) -> _Sound:
    document = store.document(doc_id)
    pages = [document.page(number) for number in range(1, document.num_pages + 1)]
    pictures = tuple(np.asarray(page.image(), dtype=float) for page in pages)
    assert all(picture.min() < 100 for picture in pictures)
    return _Sound(name, data, pictures, tuple(page.text() for page in pages))


CAMPAIGN = Campaign(
    name="pdfs",
    what="PDFs: bytes, objects, tables, endless and recursive pages, fonts, page trees, every encryption",
    short=len(KINDS),
    long=600,
    prepare=prepare,
    attempt=attempt,
    batch=30,
    seconds=120,
)
