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
from tests.faults.mutate import Damage, damage, pick
from tests.faults.pdf_files import ALGORITHMS, STRANGE, drawn, encrypted, with_object_streams
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right

_NO_OCR = OcrSettings(OcrMode.NEVER)
_SETTINGS = RenderSettings(dpi=72)
_LIMITS = IngestLimits(seconds=5, memory_gib=1, pixels=4_000_000)
_OBJECT = re.compile(rb"(?<![0-9])[0-9]+ 0 obj.*?endobj\s", re.DOTALL)
_PASSWORD = "secret"


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
    files = {
        "plain": plain,
        "compressed": drawn(3, compress=True),
        "long": drawn(20, compress=True),
        "object streams": with_object_streams(plain),
    }
    files |= {f"{algorithm} for all": encrypted(plain, algorithm, "", "owner") for algorithm in ALGORITHMS}
    for number, data in enumerate(files.values()):
        (folder / f"{number}.pdf").write_bytes(data)
    report = ingest(folder, folder / "store", settings=_SETTINGS, limits=_LIMITS, workers=1, ocr=_NO_OCR)
    assert not report.failed, report.failed
    store = DocumentStore(folder / "store")
    return [_sound(store, str(number), name, data) for number, (name, data) in enumerate(files.items())]


def attempt(sounds: list[_Sound], cases: Sequence[Case], folder: Path) -> list[Verdict]:
    """Ingest a document a case, and one that is sound."""
    inbox = folder / "inbox"
    inbox.mkdir()
    tried = [make(sounds, case, folder) for case in cases]
    for number, item in enumerate(tried):
        (inbox / f"d{number}.pdf").write_bytes(item.data)
    (inbox / "sound.pdf").write_bytes(sounds[0].data)
    report = ingest(inbox, folder / "store", settings=_SETTINGS, limits=_LIMITS, workers=1, ocr=_NO_OCR)
    store = DocumentStore(folder / "store")
    if _compared(store, "sound", sounds[0]):
        return [bad(Fault.WRONG, "a sound document among them is not stored as it is")] * len(cases)
    if left := [str(path) for path in folder.rglob("*.tmp")]:
        return [bad(Fault.LEFTOVER, ", ".join(left))] * len(cases)
    return [
        judged(lambda number=number, item=item: _verdict(item, f"d{number}", report, store))
        for number, item in enumerate(tried)
    ]


def make(sounds: Sequence[_Sound], case: Case, folder: Path) -> _Tried:
    """The file of a case."""
    random = case.random()
    kinds = (_bytes, _objects, _table, _strange, _locked)
    kind = random.choices(kinds, (40, 15, 15, 12, 18))[0]
    return kind(sounds, random, folder)


def _bytes(sounds: Sequence[_Sound], random: Random, _: Path) -> _Tried:
    sound, kind = random.choice(sounds), pick(random)
    whole = kind in (Damage.NONE, Damage.APPEND)
    return _Tried(f"{sound.name}, {kind}", damage(sound.data, kind, random), sound, whole)


def _objects(sounds: Sequence[_Sound], random: Random, _: Path) -> _Tried:
    """Objects that are gone, there twice, in the place of others or with damage of their own."""
    sound = random.choice(sounds)
    found = list(_OBJECT.finditer(sound.data))
    one, other = random.choice(found), random.choice(found)
    before, after = sound.data[: one.start()], sound.data[one.end() :]
    how = random.choice(("deleted", "there twice", "replaced", "damaged"))
    changed = {
        "deleted": b"",
        "there twice": one[0] + one[0],
        "replaced": one[0].split(b" ", 1)[0] + b" " + other[0].split(b" ", 1)[1],
        "damaged": damage(one[0], random.choice((Damage.FLIP, Damage.ZERO, Damage.NOISE)), random),
    }[how]
    return _Tried(f"{sound.name}, object {one[0][:8]!r} {how}", before + changed + after, sound)


def _table(sounds: Sequence[_Sound], random: Random, _: Path) -> _Tried:
    """Damage to the end of the file, which says where everything is."""
    sound = random.choice(sounds)
    start = max(sound.data.rfind(b"\nxref"), sound.data.rfind(b"startxref") - 400, 0)
    kinds = (Damage.FLIP, Damage.ZERO, Damage.DELETE, Damage.INSERT, Damage.NOISE, Damage.REPEAT)
    kind = random.choice(kinds)
    changed = sound.data[:start] + damage(sound.data[start:], kind, random)
    return _Tried(f"{sound.name}, end of file: {kind}", changed, sound)


def _strange(_: Sequence[_Sound], random: Random, folder: Path) -> _Tried:
    name = random.choice(list(STRANGE))
    path = folder / "strange.pdf"
    STRANGE[name](path)
    return _Tried(name, path.read_bytes(), needs="encrypted" if name.startswith("encrypted") else "")


def _locked(sounds: Sequence[_Sound], random: Random, _: Path) -> _Tried:
    """Encrypted by every algorithm, with and without a password for the reader, sound and damaged."""
    sound, algorithm = random.choice(sounds[:4]), random.choice(ALGORITHMS)
    asks = random.random() < 0.5
    data = encrypted(sound.data, algorithm, _PASSWORD if asks else "", random.choice(("owner", _PASSWORD)))
    damaged = random.random() < 0.4
    name = f"{sound.name} by {algorithm}{' with password' if asks else ''}{' damaged' if damaged else ''}"
    if damaged:
        return _Tried(
            name, damage(data, random.choice((Damage.FLIP, Damage.CUT, Damage.ZERO)), random), sound
        )
    return _Tried(name, data, sound, whole=True, needs="asks for a password" if asks else "")


def _verdict(item: _Tried, doc_id: str, report: IngestReport, store: DocumentStore) -> Verdict:
    (reason, *_) = [f.reason for f in report.failed if f.name == f"{doc_id}.pdf"] or [None]
    if reason is not None:
        if item.whole and not item.needs and not item.name.endswith(Damage.APPEND):
            return bad(Fault.WRONG, f"{item.name} is sound, but: {reason}")
        return refused(f"{reason}", *([item.needs] if item.needs else []))
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
    return _plausible(item, doc_id, store, difference)


def _plausible(item: _Tried, doc_id: str, store: DocumentStore, difference: str) -> Verdict:
    """A PDF has no checksums: a changed letter is a letter. Pages that are lost or white are seen."""
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
        if page.text() != text:
            return f"page {number} has another text"
        shown = np.asarray(page.image(), dtype=float)
        if shown.shape != picture.shape or np.abs(shown - picture).mean() > 1:
            return f"page {number} looks different"
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
    short=40,
    long=600,
    prepare=prepare,
    attempt=attempt,
    batch=20,
    seconds=25,
    memory_gib=4,
)
