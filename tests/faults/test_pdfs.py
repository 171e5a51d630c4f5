"""`ingest` refuses damaged and encrypted PDFs, or stores them with all of their pages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest

from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import IngestLimits, OcrMode
from docagent_rl.documents.store import DocumentStore
from tests.faults.conftest import cases, chance, is_clear
from tests.faults.mutate import Damage, damage
from tests.faults.pdf_files import ALGORITHMS, STRANGE, drawn, encrypted

pytestmark = pytest.mark.slow
OBJECT = re.compile(rb"(?<![0-9])[0-9]+ 0 obj.*?endobj\s", re.DOTALL)
OPTIONS = {
    "settings": RenderSettings(dpi=72),
    "limits": IngestLimits(seconds=60, memory_gib=1),
    "ocr": OcrMode.NEVER,
    "workers": 1,
}
OBJECTS = ("deleted", "there twice", "replaced", "damaged")
ENDS = tuple(("end", kind) for kind in Damage if kind not in ("none", "cut off", "append", "empty"))
LOCKS = tuple(("locked", algorithm) for algorithm in ALGORITHMS)
KINDS = (*STRANGE, *Damage, *OBJECTS, *ENDS, *LOCKS)
CASES = len(KINDS)
Shown = list[tuple[np.ndarray, str]]


@dataclass(frozen=True)
class Sound:
    """An undamaged PDF, and the pictures and texts of its pages."""

    name: str
    data: bytes
    pages: Shown


@dataclass(frozen=True)
class Made:
    """A PDF and the PDF from which it was made, if any.

    Args:
        whole: it is to be stored as what it was made from, or refused.
        needs: it has to be refused, naming this.
    """

    name: str
    data: bytes
    sound: Sound | None = None
    whole: bool = False
    needs: str = ""


def shown(store: DocumentStore, doc_id: str) -> Shown:
    document = store.document(doc_id)
    pages = [document.page(number) for number in range(1, document.num_pages + 1)]
    return [(np.asarray(page.image(), dtype=float), page.text()) for page in pages]


def alike(found: Shown, sound: Sound) -> bool:
    return len(found) == len(sound.pages) and all(
        (text, picture.shape) == (own, own_picture.shape)
        and np.abs(picture - own_picture).mean() <= 1
        for (picture, text), (own_picture, own) in zip(found, sound.pages, strict=True)
    )


@pytest.fixture(scope="module")
def sounds(tmp_path_factory) -> list[Sound]:
    folder, plain = tmp_path_factory.mktemp("sounds"), drawn(3, compress=False)
    files = {
        "plain": plain,
        "compressed": drawn(3, compress=True),
        "long": drawn(20, compress=True),
    }
    files |= {
        f"{algorithm} for all": encrypted(plain, algorithm, "", "owner") for algorithm in ALGORITHMS
    }
    for number, data in enumerate(files.values()):
        (folder / f"{number}.pdf").write_bytes(data)
    assert not ingest(folder, folder / "store", **OPTIONS).failed
    store = DocumentStore(folder / "store")
    found = [
        Sound(name, data, shown(store, str(n))) for n, (name, data) in enumerate(files.items())
    ]
    assert all(picture.min() < 100 for sound in found for picture, _ in sound.pages)
    return found


def make(sounds: Sequence[Sound], number: int, path: Path) -> Made:
    """Make the file of a case."""
    random = chance("pdfs", number)
    sound = random.choice(sounds)
    match KINDS[number % len(KINDS)]:
        case Damage() as kind:
            whole = kind in (Damage.NONE, Damage.APPEND)
            return Made(f"{sound.name}, {kind}", damage(sound.data, kind, random), sound, whole)
        case ("end", kind):  # which says where everything is
            start = max(sound.data.rfind(b"\nxref"), sound.data.rfind(b"startxref") - 400, 0)
            data = sound.data[:start] + damage(sound.data[start:], kind, random)
            return Made(f"{sound.name}, end of file: {kind}", data, sound)
        case ("locked", algorithm):
            data = encrypted(sounds[0].data, algorithm, "secret", "owner")
            return Made(f"asks by {algorithm}", data, needs="asks for a password")
        case str(how) if how in OBJECTS:
            return with_an_object(sound, how, random)
        case name:
            STRANGE[name](path)
            return Made(
                name, path.read_bytes(), needs="encrypted" if name.startswith("encrypted") else ""
            )


def with_an_object(sound: Sound, how: str, random: Random) -> Made:
    """Remove an object, write it twice, put it in the place of another, or damage it."""
    found = list(OBJECT.finditer(sound.data))
    one, other = random.choice(found), random.choice(found)
    changed = {
        "deleted": b"",
        "there twice": one[0] + one[0],
        "replaced": one[0].split(b" ", 1)[0] + b" " + other[0].split(b" ", 1)[1],
        "damaged": damage(one[0], random.choice((Damage.FLIP, Damage.ZERO, Damage.NOISE)), random),
    }[how]
    data = sound.data[: one.start()] + changed + sound.data[one.end() :]
    return Made(f"{sound.name}, object {one[0][:8]!r} {how}", data, sound)


@pytest.fixture(scope="module")
def tried(sounds, tmp_path_factory, request):
    """Return all cases and one undamaged document, ingested."""
    folder = tmp_path_factory.mktemp("tried")
    numbers = cases(request.module, request.config)
    made = [make(sounds, number, folder / "strange.pdf") for number in numbers]
    (folder / "inbox").mkdir()
    for number, item in enumerate(made):
        (folder / "inbox" / f"d{number}.pdf").write_bytes(item.data)
    (folder / "inbox" / "sound.pdf").write_bytes(sounds[0].data)
    return (
        made,
        ingest(folder / "inbox", folder / "store", **OPTIONS),
        DocumentStore(folder / "store"),
    )


def test_a_sound_document_among_them_is_stored_and_nothing_is_left_over(tried, sounds):
    made, report, store = tried
    assert alike(shown(store, "sound"), sounds[0])
    assert not list(store.path.parent.rglob("*.tmp"))
    assert 0.2 <= len(report.failed) / len(made) <= 0.8


def test_a_damaged_document_is_refused_or_has_all_its_pages(tried, number):
    made, report, store = tried
    item, doc_id = made[number], f"d{number}"
    reasons = [each.reason for each in report.failed if each.name == f"{doc_id}.pdf"]
    if reasons:
        assert is_clear(reasons[0], *[item.needs] * bool(item.needs)), (item.name, reasons)
        assert item.needs or not item.whole or item.name.endswith(Damage.APPEND), (
            item.name,
            reasons,
        )
        return
    assert doc_id in report.ingested
    assert not item.needs, item.name
    pages = shown(store, doc_id)
    if item.sound is not None:
        assert not item.whole or alike(pages, item.sound), item.name
        # a PDF has no checksums: a changed letter is a letter; pages that are lost or white are
        # seen
        assert len(pages) == len(item.sound.pages), item.name
        assert all(picture.min() <= 250 for picture, _ in pages), item.name
