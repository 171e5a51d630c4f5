"""Damaged, distorted and strange scans, through ingest with OCR."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont, ImageOps

from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.documents.ocr.words import plain_text
from docagent_rl.documents.reading import TextSource
from docagent_rl.documents.report import IngestReport
from docagent_rl.surrogates import lone_surrogate
from tests.faults.campaign import Campaign, Case
from tests.faults.mutate import damage, pick
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right

_SIZE = (640, 360)
_LIMITS = IngestLimits(seconds=60, memory_gib=3, pixels=6_000_000)
_ALWAYS = OcrSettings(OcrMode.ALWAYS)
_AUTO = OcrSettings()
_NEVER = OcrSettings(OcrMode.NEVER)
_WORDS = (
    *("annual", "report", "table", "revenue", "Portugal", "employees", "figure", "total", "between", "1,204"),
    *("2019", "chapter", "energy", "water", "harbour", "41.5", "million", "quarter", "index", "museum"),
)
_READ = 0.8
"""Share of the words that has to be read of a page that is as it was written."""
_FORMATS = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp", "TIFF": "tif", "PDF": "pdf"}


@dataclass(frozen=True, slots=True)
class Page:
    """A page of print."""

    picture: Image.Image
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tried:
    name: str
    data: bytes
    suffix: str
    words: tuple[str, ...] = ()
    """What has to be read, nearly all of it."""
    ocr: OcrSettings = _AUTO


def prepare(folder: Path) -> list[Page]:
    """Pages in several sizes of print."""
    return [_printed(Random(number), size) for number, size in enumerate((18, 24, 30, 40))]


def attempt(pages: list[Page], cases: Sequence[Case], folder: Path) -> list[Verdict]:
    """Ingest one document of one page a case, and the same documents without OCR beside it."""
    tried = [make(pages, case.random()) for case in cases]
    for number, item in enumerate(tried):
        name = f"d{number}.pdf" if item.suffix == "pdf" else f"d{number}/1.{item.suffix}"
        for inbox in ("never", str(item.ocr.mode)):
            path = folder / inbox / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(item.data)
    found: dict[str, tuple[IngestReport, DocumentStore]] = {}
    for ocr in (_NEVER, _AUTO, _ALWAYS):
        inbox, store = folder / str(ocr.mode), folder / f"{ocr.mode}.store"
        if inbox.exists():
            report = ingest(inbox, store, limits=_LIMITS, workers=1, ocr=ocr)
            found[str(ocr.mode)] = (report, DocumentStore(store))
    return [
        judged(lambda number=number, item=item: _verdict(item, f"d{number}", found))
        for number, item in enumerate(tried)
    ]


def make(pages: Sequence[Page], random: Random) -> _Tried:
    """The file of a case."""
    kind = random.choices((_damaged, _distorted, _no_print, _as_written), (4, 3, 2, 1))[0]
    return kind(pages, random)


def _as_written(pages: Sequence[Page], random: Random) -> _Tried:
    page, format_ = random.choice(pages), random.choice(sorted(_FORMATS))
    ocr = random.choice((_AUTO, _ALWAYS))
    return _Tried(f"sound {format_}", _encoded(page.picture, format_), _FORMATS[format_], page.words, ocr)


def _damaged(pages: Sequence[Page], random: Random) -> _Tried:
    format_, kind = random.choice(sorted(_FORMATS)), pick(random)
    data = damage(_encoded(random.choice(pages).picture, format_), kind, random)
    return _Tried(f"{format_} {kind}", data, _FORMATS[format_], ocr=random.choice((_AUTO, _ALWAYS)))


def _distorted(pages: Sequence[Page], random: Random) -> _Tried:
    picture, name = random.choice(pages).picture, random.choice(sorted(_DISTORTIONS))
    return _Tried(name, _encoded(_DISTORTIONS[name](picture, random), "PNG"), "png", ocr=_ALWAYS)


def _no_print(_: Sequence[Page], random: Random) -> _Tried:
    noise = np.random.default_rng(random.getrandbits(32))
    width, height = random.choice(((40, 4000), (3000, 31), (64, 64), (500, 700), (1, 200)))
    kind = random.choice(("noise", "white", "black", "stripes", "chequers"))
    rows, columns = np.indices((height, width))
    pixels = {
        "noise": lambda: noise.integers(0, 256, (height, width)),
        "white": lambda: np.full((height, width), 255),
        "black": lambda: np.zeros((height, width)),
        "stripes": lambda: rows // 3 % 2 * 255,
        "chequers": lambda: (rows // 5 + columns // 5) % 2 * 255,
    }[kind]()
    picture = Image.fromarray(pixels.astype(np.uint8)).convert("RGB")
    return _Tried(f"{kind} {width}x{height}", _encoded(picture, "PNG"), "png", ocr=_ALWAYS)


_DISTORTIONS = {
    "turned": lambda picture, random: picture.rotate(random.uniform(0, 360), expand=True, fillcolor="white"),
    "mirrored": lambda picture, _: ImageOps.mirror(picture),
    "inverted": lambda picture, _: ImageOps.invert(picture),
    "blurred": lambda picture, random: picture.filter(ImageFilter.GaussianBlur(random.uniform(0.5, 8))),
    "faint": lambda picture, random: Image.blend(picture, Image.new("RGB", picture.size, "white"), 0.97),
    "tiny": lambda picture, random: picture.resize((random.randint(20, 90), random.randint(12, 50))),
    "enlarged": lambda picture, _: picture.resize((2400, 1350)),
    "squeezed": lambda picture, random: picture.resize((random.randint(30, 120), 1200)),
    "cropped": lambda picture, random: picture.crop((0, 0, random.randint(12, 300), random.randint(12, 120))),
}


def _verdict(item: _Tried, doc_id: str, found: dict[str, tuple[IngestReport, DocumentStore]]) -> Verdict:
    report, store = found[str(item.ocr.mode)]
    plain_report, plain_store = found["never"]
    reasons, plain_reasons = _reasons(report, doc_id), _reasons(plain_report, doc_id)
    if reasons:
        if item.words:
            return bad(Fault.WRONG, f"{item.name} is sound, but: {reasons[0]}")
        if not plain_reasons and "--ocr never" not in reasons[0]:
            return bad(
                Fault.WRONG, f"{item.name} is stored without OCR alone, and that is not said: {reasons}"
            )
        return refused(reasons[0])
    if doc_id not in report.ingested:
        return bad(Fault.WRONG, f"{item.name} is neither stored nor reported")
    page, plain = store.page(PageRef(doc_id, 1)), plain_store.page(PageRef(doc_id, 1))
    if page.image_bytes() != plain.image_bytes():
        return bad(Fault.WRONG, f"{item.name}: OCR changed the picture")
    lines, reading, text = page.words(), page.reading, page.text()
    if lone_surrogate(text) is not None:
        return bad(Fault.WRONG, f"{item.name}: the text cannot be written")
    if (reading is not None and reading.source is TextSource.OCR) != bool(lines):
        return bad(Fault.WRONG, f"{item.name}: read as {reading}, with {len(lines)} lines of words")
    if lines and plain_text(lines) != text:
        return bad(Fault.WRONG, f"{item.name}: the text is not that of its words")
    for left, top, right_, bottom in (word.box for line in lines for word in line.words):
        if not (0 <= left < right_ <= 1 and 0 <= top < bottom <= 1):
            return bad(Fault.WRONG, f"{item.name}: a word lies at {left}, {top}, {right_}, {bottom}")
    read = sum(word.lower() in text.lower() for word in item.words)
    if item.words and read < _READ * len(item.words):
        return bad(Fault.WRONG, f"{item.name}: {read} of {len(item.words)} words are read: {text!r}")
    return right(f"{item.name}: {len(text)} characters")


def _reasons(report: IngestReport, doc_id: str) -> list[str]:
    names = (doc_id, f"{doc_id}.pdf")
    return [f.reason for f in report.failed if f.name in names or f.name.startswith(f"{doc_id}/")]


def _printed(random: Random, size: int) -> Page:
    picture = Image.new("RGB", _SIZE, "white")
    drawing, font = ImageDraw.Draw(picture), ImageFont.load_default(size)
    words: list[str] = []
    for top in range(10, _SIZE[1] - size - 8, int(size * 1.7)):
        left = 12.0
        while True:
            word = random.choice(_WORDS)
            if left + drawing.textlength(word, font) > _SIZE[0] - 12:
                break
            drawing.text((left, top), word, fill="black", font=font)
            left += drawing.textlength(word + "  ", font)
            words.append(word)
    return Page(picture, tuple(words))


def _encoded(picture: Image.Image, format_: str) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format_, **({"resolution": 96.0} if format_ == "PDF" else {}))
    return buffer.getvalue()


CAMPAIGN = Campaign(
    name="scans",
    what="scanned pages with OCR: damaged files, turned, faint and tiny print, noise, extreme shapes",
    short=24,
    long=600,
    prepare=prepare,
    attempt=attempt,
    batch=24,
    seconds=15,
    memory_gib=5,
)
