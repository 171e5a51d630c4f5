"""Page images of every mode, size and kind through `ingest`: right, or one clear error."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.ocr import OcrMode, OcrSettings

WIDTH, HEIGHT = 72, 48
RAMP = np.linspace(0, 1, WIDTH * HEIGHT).reshape(HEIGHT, WIDTH)
GREY = Image.fromarray((RAMP * 255).astype(np.uint8))
SHOWN = np.asarray(GREY, dtype=float)


def encoded(image: Image.Image, format_: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_, **options)
    return buffer.getvalue()


@pytest.fixture
def stored(inbox, tmp_path):
    """Ingest files, one a document; returns the report and the pictures by document."""

    def run(files: dict[str, bytes], ocr=OcrMode.NEVER, **options):
        for name, data in files.items():
            path = inbox / name.replace(" ", "-") / "1.png"
            path.parent.mkdir()
            path.write_bytes(data)
        report = ingest(inbox, tmp_path / "store", workers=1, ocr=OcrSettings(ocr), **options)
        store = DocumentStore(tmp_path / "store")
        assert not list((tmp_path / "store").rglob(".*.tmp"))
        return report, {doc_id: store.document(doc_id).page(1) for doc_id in store.doc_ids()}

    return run


def _grey(page) -> np.ndarray:
    return np.asarray(page.image().convert("L"), dtype=float)


def test_every_mode_shows_what_it_holds(stored):
    files = {}
    for mode, formats in {
        "L": ("PNG", "TIFF", "JPEG", "BMP", "WEBP"),
        "P": ("PNG", "TIFF", "BMP"),
        "LA": ("PNG", "TIFF"),
        "RGBA": ("PNG", "TIFF", "WEBP"),
        "CMYK": ("TIFF", "JPEG"),
        "YCbCr": ("TIFF", "JPEG"),
        "LAB": ("TIFF",),
        "1": ("PNG", "TIFF", "BMP"),
    }.items():
        source = GREY if mode in ("L", "LA", "1") else GREY.convert("RGB")
        for format_ in formats:
            files[f"{mode} {format_}"] = encoded(source.convert(mode), format_)
    report, pages = stored(files)
    assert not report.failed
    for name, page in pages.items():
        # black and white dots, or few colours, are right on the whole alone
        if name.startswith(("1", "P")):
            assert _grey(page).mean() == pytest.approx(SHOWN.mean(), abs=4), name
        else:
            assert np.abs(_grey(page) - SHOWN).mean() < 4, name


def test_sixteen_bits_a_pixel_are_not_cut_to_white(stored):
    deep = Image.fromarray((RAMP * 65535).astype(np.uint16))
    report, pages = stored(
        {
            "png": encoded(deep, "PNG"),
            "tiff": encoded(deep, "TIFF"),
            "clear": encoded(deep, "PNG", transparency=0),
        }
    )
    assert not report.failed
    assert np.abs(_grey(pages["png"]) - SHOWN).mean() < 2
    assert np.abs(_grey(pages["tiff"]) - SHOWN).mean() < 2
    assert _grey(pages["clear"])[0, 0] > 200  # what is transparent lies on white
    assert np.abs(_grey(pages["clear"]) - SHOWN)[1:].mean() < 4


def test_numbers_without_a_scale_are_refused(stored):
    whole = Image.fromarray((RAMP * 9_000_000).astype(np.int32))
    fractions = Image.fromarray(RAMP.astype(np.float32))
    nothing = Image.fromarray(np.full((HEIGHT, WIDTH), np.nan, np.float32))
    report, pages = stored(
        {"I": encoded(whole, "TIFF"), "F": encoded(fractions, "TIFF"), "NaN": encoded(nothing, "TIFF")}
    )
    assert not pages
    assert [failure.name for failure in report.failed] == ["F", "I", "NaN"]
    assert all("1.png holds numbers without a scale (mode" in failure.reason for failure in report.failed)


def test_pictures_are_turned_upright(stored):
    turned = {}
    for orientation in range(1, 9):
        for format_ in ("JPEG", "PNG", "WEBP", "TIFF"):
            exif = Image.Exif()
            exif[0x0112] = orientation
            turned[f"{orientation} {format_}"] = encoded(GREY.convert("RGB"), format_, exif=exif)
    deep, exif = Image.fromarray((RAMP * 65535).astype(np.uint16)), Image.Exif()
    exif[0x0112] = 6
    turned["6 deep"] = encoded(deep, "PNG", exif=exif)
    upright = {
        1: SHOWN, 2: SHOWN[:, ::-1], 3: SHOWN[::-1, ::-1], 4: SHOWN[::-1], 5: SHOWN.T,
        6: SHOWN[::-1].T, 7: SHOWN[::-1, ::-1].T, 8: SHOWN.T[::-1],
    }  # fmt: skip
    report, pages = stored(turned)
    assert not report.failed
    for name, page in pages.items():
        assert np.abs(_grey(page) - upright[int(name[0])]).mean() < 4, name


def test_several_pictures_in_one_file_are_refused(stored):
    frames = [GREY.convert("RGB"), GREY.convert("RGB").rotate(180)]
    report, pages = stored(
        {
            f"animated {format_}": encoded(frames[0], format_, save_all=True, append_images=frames[1:])
            for format_ in ("TIFF", "WEBP", "PNG")
        }
    )
    assert not pages
    assert all("holds 2 images: write one file a page" in failure.reason for failure in report.failed)


def test_pictures_of_every_size(stored):
    sizes = [(1, 1), (1, 200), (200, 1), (7, 9), (1, 201), (1, 30000), (30000, 1), (9000, 100)]
    files = {f"{w}x{h}": encoded(Image.new("L", (w, h), 90), "PNG") for w, h in sizes}
    report, pages = stored(files)
    assert {name: page.size for name, page in pages.items()} == {
        "1x1": (1, 1), "1x200": (1, 200), "200x1": (200, 1), "7x9": (7, 9), "9000x100": (4096, 46),
    }  # fmt: skip
    assert all("cannot be shown" in failure.reason for failure in report.failed)


@pytest.mark.slow
def test_narrow_pictures_with_marks_are_read_without_an_error(stored):
    """OCR sees what is not blank."""
    noise = np.random.default_rng(1).integers(0, 255, (2000, 2000), dtype=np.uint8)
    sizes = [(8, 8), (9, 1600), (1600, 9), (16, 2000), (2000, 16), (100, 3)]
    files = {f"{w}x{h}": encoded(Image.fromarray(noise[:h, :w]), "PNG") for w, h in sizes}
    report, pages = stored(files, OcrMode.AUTO)
    assert not report.failed
    assert len(pages) == len(sizes)


def _png(width: int, height: int, data: bytes, bits: int = 1) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.slow
def test_a_hundred_megapixels_are_scaled_down_and_more_are_refused(stored):
    """Each of the files has a few kilobytes."""
    rows = zlib.compress((b"\0" + b"\xff" * 1250) * 10_000)
    more = zlib.compress((b"\0" + b"\xff" * 1750) * 14_000)
    bomb = zlib.compress(bytes(1_000_000))
    report, pages = stored(
        {
            "large": _png(10_000, 10_000, rows),
            "larger": _png(14_000, 14_000, more),
            "bomb": _png(2**31 - 1, 2**31 - 1, bomb),
            "liar": _png(10_000, 10_000, bomb),
        }
    )
    assert {name: page.size for name, page in pages.items()} == {"large": (4096, 4096)}
    reasons = {failure.name: failure.reason for failure in report.failed}
    assert reasons["larger"] == "1.png has more than 178956970 pixels: write it smaller"
    assert set(reasons) == {"bomb", "larger", "liar"}
    assert all(reason.startswith("1.png") for reason in reasons.values())


@pytest.mark.slow
def test_a_picture_beyond_the_memory_that_it_may_take_is_refused(stored):
    rows = zlib.compress((b"\0" + b"\xff" * 1250) * 10_000)
    small = encoded(GREY, "PNG")
    report, pages = stored({"a": _png(10_000, 10_000, rows), "b": small}, limits=IngestLimits(memory_gib=0.1))
    assert list(pages) == ["b"]
    assert "1.png takes more than 0.1 GiB of memory" in report.failed[0].reason


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "TIFF", "WEBP", "BMP"])
def test_files_cut_anywhere_are_refused_or_whole(stored, format_):
    data = encoded(GREY.convert("RGB"), format_)
    cuts = sorted({len(data) * part // 12 for part in range(12)} | {len(data) - 1})
    report, pages = stored({f"cut{cut}": data[:cut] for cut in cuts})
    assert len(report.failed) + len(pages) == len(cuts)
    assert len(report.failed) >= len(cuts) - 2
    for page in pages.values():  # what was cut off was no pixel
        assert np.abs(_grey(page) - SHOWN).mean() < 4


@pytest.mark.parametrize("name", ["2.gif", "2.JP2", "2.heic"])
def test_a_page_of_a_kind_that_is_not_read_does_not_shift_the_others(inbox, tmp_path, write_image, name):
    """The folder would be a document with two pages, numbered wrong."""
    write_image(inbox / "deck" / "1.png")
    write_image(inbox / "deck" / "3.png")
    (inbox / "deck" / name).write_bytes(encoded(GREY, "GIF"))
    write_image(inbox / "good" / "1.png")
    report = ingest(inbox, tmp_path / "store", workers=1)
    assert report.ingested == ["good"]
    assert report.failed[0].name == f"deck/{name}"
    assert "write it as PNG or JPEG" in report.failed[0].reason


def test_other_pictures_beside_pdfs_are_passed_over(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "a.pdf", ["text"])
    (inbox / "logo.gif").write_bytes(encoded(GREY, "GIF"))
    assert not ingest(inbox, tmp_path / "store", workers=1).failed
