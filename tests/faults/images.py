"""Damaged, foreign and oversized images, through ingest and the store that shows them."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from docagent_rl.documents import DocumentStore, PageRef, RenderSettings
from docagent_rl.documents.images import FORMATS
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.documents.report import IngestReport
from tests.faults.campaign import Campaign, Case
from tests.faults.mutate import Damage, damage, pick
from tests.faults.verdict import Fault, Verdict, bad, judged, refused, right

_SIZE = (72, 48)
_LIMITS = IngestLimits(seconds=20, memory_gib=1, pixels=4_000_000)
_FOREIGN = ("GIF", "EPS", "PPM", "ICO", "TGA", "PCX", "SGI", "IM", "MSP", "XBM", "DDS", "JPEG2000", "PDF")
_NO_OCR = OcrSettings(OcrMode.NEVER)
"""What is stored is a picture; reading thousands of them would take hours."""
_ALIKE = 12.0
"""Mean difference of two pictures, of 255, up to which they are the same one compressed."""


@dataclass(frozen=True, slots=True)
class Sound:
    """An image file that is to be stored, and what it shows."""

    name: str
    data: bytes
    picture: np.ndarray
    """RGB values."""


@dataclass(frozen=True, slots=True)
class _Tried:
    name: str
    data: bytes
    suffix: str
    refuse: bool = False
    """It has to be refused, whatever it holds."""
    shows: np.ndarray | None = None
    """What it shows if it is stored; None: what Pillow makes of it."""


def prepare(folder: Path) -> list[Sound]:
    """One file of each accepted format, mode and compression."""
    return [_sound(name, format_, mode, options) for name, format_, mode, options in _variants()]


def attempt(sounds: list[Sound], cases: Sequence[Case], folder: Path) -> list[Verdict]:
    """Ingest one document of one page a case."""
    tried = [make(sounds, case.random()) for case in cases]
    for number, item in enumerate(tried):
        path = folder / "inbox" / f"d{number}" / f"1{item.suffix}"
        path.parent.mkdir(parents=True)
        path.write_bytes(item.data)
    report = ingest(folder / "inbox", folder / "store", limits=_LIMITS, workers=1, ocr=_NO_OCR)
    store = DocumentStore(folder / "store")
    left = [str(path) for path in folder.rglob("*.tmp")] + list(map(str, folder.glob("store/partial/*/*")))
    if left:
        return [bad(Fault.LEFTOVER, ", ".join(left))] * len(cases)
    return [
        judged(lambda number=number, item=item: _verdict(item, f"d{number}", report, store))
        for number, item in enumerate(tried)
    ]


def make(sounds: Sequence[Sound], random: Random) -> _Tried:
    """The file of a case."""
    kind = random.choices((_damaged, _foreign, _script, _bomb, _narrow, _several), (40, 3, 1, 1, 1, 1))[0]
    return kind(sounds, random)


def _damaged(sounds: Sequence[Sound], random: Random) -> _Tried:
    sound, kind = random.choice(sounds), pick(random)
    data = damage(sound.data, kind, random)
    suffix = random.choice((".png", ".jpg", ".tif", ".webp", ".bmp"))  # the name decides nothing
    # what is cut off or appended leaves the rest as it was: the picture is whole or it is refused
    unchanged = kind in (Damage.NONE, Damage.CUT, Damage.APPEND) or sound.name.startswith("PNG")
    return _Tried(f"{sound.name} {kind}", data, suffix, shows=sound.picture if unchanged else None)


def _foreign(sounds: Sequence[Sound], random: Random) -> _Tried:
    format_ = random.choice(_FOREIGN)
    mode = {"MSP": "1", "XBM": "1"}.get(format_, "RGB")
    data = _encoded(Image.fromarray(sounds[0].picture.astype(np.uint8)).convert(mode), format_)
    return _Tried(f"foreign {format_}", damage(data, pick(random), random), ".png", refuse=True)


def _script(sounds: Sequence[Sound], random: Random) -> _Tried:
    texts = (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n(/tmp/owned) (w) file closefile showpage\n",
        b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
        b"<!DOCTYPE html><html><body>not found</body></html>",
        b"#!/bin/sh\nexit 1\n",
        random.randbytes(300),
    )
    return _Tried("script", random.choice(texts), random.choice((".png", ".jpg", ".tiff")), refuse=True)


def _bomb(sounds: Sequence[Sound], random: Random) -> _Tried:
    width, height = random.choice(((60_000, 60_000), (2**31 - 1, 2**31 - 1), (5_000, 5_000), (65_000, 9_000)))
    head = struct.pack(">IIBBBBB", width, height, 8, random.choice((0, 2, 6)), 0, 0, 0)
    body = zlib.compress(bytes(1_000_000))
    data = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return _Tried(f"bomb {width}x{height}", data, ".png", refuse=True)


def _narrow(sounds: Sequence[Sound], random: Random) -> _Tried:
    length, format_ = random.choice((201, 500, 3000)), random.choice(("PNG", "JPEG", "WEBP", "TIFF", "BMP"))
    size = (1, length) if random.random() < 0.5 else (length, 1)
    return _Tried(f"narrow {size}", _encoded(Image.new("RGB", size, "red"), format_), ".png", refuse=True)


def _several(sounds: Sequence[Sound], random: Random) -> _Tried:
    format_ = random.choice(("PNG", "WEBP", "TIFF"))
    pages = [Image.effect_noise(_SIZE, 90).convert("RGB") for _ in range(2)]
    return _Tried(
        f"several {format_}",
        _encoded(pages[0], format_, save_all=True, append_images=pages[1:]),
        ".png",
        refuse=True,
    )


def _verdict(item: _Tried, doc_id: str, report: IngestReport, store: DocumentStore) -> Verdict:
    reasons = [failure.reason for failure in report.failed if failure.name.startswith(f"{doc_id}/")]
    reasons += [failure.reason for failure in report.failed if failure.name == doc_id]
    if reasons:
        if item.name.endswith(f" {Damage.NONE}") and not item.refuse:
            return bad(Fault.WRONG, f"{item.name} is sound, but: {reasons[0]}")
        return refused(reasons[0], "1.", "cannot be shown")
    if doc_id not in report.ingested:
        return bad(Fault.WRONG, f"{item.name} is neither stored nor reported")
    if item.refuse:
        return bad(Fault.WRONG, f"{item.name} is stored")
    page = store.page(PageRef(doc_id, 1))
    shown = page.image()
    if shown.size != page.size or max(shown.size) > 200 * min(shown.size):
        return bad(Fault.WRONG, f"{item.name} is shown as {shown.size}")
    expected = _decoded(item.data) if item.shows is None else item.shows
    return _compared(item.name, np.asarray(shown, dtype=float), expected)


def _compared(name: str, shown: np.ndarray, expected: np.ndarray) -> Verdict:
    most = RenderSettings().max_side
    if max(expected.shape) > most and max(shown.shape) <= most:
        return right(f"{name}: scaled down from {expected.shape}")
    if shown.shape != expected.shape:
        return bad(Fault.WRONG, f"{name}: shown as {shown.shape}, not {expected.shape}")
    difference = float(np.abs(shown - expected).mean())
    if difference > _ALIKE:
        return bad(Fault.WRONG, f"{name} shows another picture: they differ by {difference:.0f} of 255")
    return right(f"{name}: {difference:.1f}")


def _variants() -> list[tuple[str, str, str, dict]]:
    listed: list[tuple[str, str, str, dict]] = [
        ("JPEG", "JPEG", "RGB", {"quality": 95}),
        ("JPEG grey", "JPEG", "L", {}),
        ("JPEG progressive", "JPEG", "RGB", {"progressive": True}),
        ("JPEG CMYK", "JPEG", "CMYK", {}),
        ("WEBP", "WEBP", "RGB", {}),
        ("WEBP lossless", "WEBP", "RGBA", {"lossless": True}),
        ("BMP", "BMP", "RGB", {}),
        ("BMP palette", "BMP", "P", {}),
    ]
    listed += [(f"PNG {mode}", "PNG", mode, {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")]
    compressions = ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg")
    listed += [(f"TIFF {name}", "TIFF", "RGB", {"compression": name}) for name in compressions]
    listed += [("PNG 16 bits", "PNG", "I;16", {}), ("TIFF 16 bits", "TIFF", "I;16", {})]
    listed += [(f"TIFF {mode}", "TIFF", mode, {}) for mode in ("LAB", "YCbCr", "P", "LA")]
    listed += [("TIFF group4", "TIFF", "1", {"compression": "group4"}), ("TIFF CMYK", "TIFF", "CMYK", {})]
    return listed


def _sound(name: str, format_: str, mode: str, options: dict) -> Sound:
    across, down = np.meshgrid(np.linspace(0, 255, _SIZE[0]), np.linspace(0, 255, _SIZE[1]))
    blocks = (np.indices(_SIZE[::-1]) // 8).sum(0) % 2 * 255
    picture = Image.fromarray(np.stack([across, down, blocks], axis=-1).astype(np.uint8))
    picture = picture.convert("L" if mode == "I;16" else mode)
    if mode == "I;16":
        grey = np.asarray(picture)
        data = _encoded(Image.fromarray(grey.astype(np.uint16) << 8), format_, **options)
        return Sound(name, data, _decoded(data))
    data = _encoded(picture, format_, **options)
    return Sound(name, data, _decoded(data))


def _encoded(image: Image.Image, format_: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_, **options)
    return buffer.getvalue()


def _decoded(data: bytes) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.mode.startswith("I;16"):  # Pillow would cut what is above 255
                grey = np.asarray(image) >> 8
                return np.repeat(grey[..., None], 3, axis=2).astype(float)
            return np.asarray(image.convert("RGB"), dtype=float)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


CAMPAIGN = Campaign(
    name="images",
    what="images of all accepted formats, of others, scripts, bombs, extreme shapes",
    short=400,
    long=12_000,
    prepare=prepare,
    attempt=attempt,
    batch=200,
    seconds=5,
    memory_gib=3,
)
