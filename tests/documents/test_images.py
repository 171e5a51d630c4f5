"""Page images of every mode, size and kind are read correctly, or raise one error that names the
file.
"""

import io
import struct
import zlib
from random import Random

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from docagent_rl.documents.render import FORMATS, read_page_image
from docagent_rl.documents.settings import DocumentError, RenderSettings

SETTINGS = RenderSettings(max_side=100)
WIDTH, HEIGHT = 72, 48
RAMP = np.linspace(0, 1, WIDTH * HEIGHT).reshape(HEIGHT, WIDTH)
GREY = Image.fromarray((RAMP * 255).astype(np.uint8))
SHOWN = np.asarray(GREY, dtype=float)


def encoded(image: Image.Image, format_: str, **options) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_, **options)
    return buffer.getvalue()


@pytest.fixture
def shown(tmp_path):
    """Return the grey values that are stored for a file."""

    def read(data: bytes, name="a.png", settings=SETTINGS):
        (tmp_path / name).write_bytes(data)
        stored, size = read_page_image(tmp_path / name, settings)
        with Image.open(io.BytesIO(stored)) as image:
            assert (image.format, image.size) == ("JPEG", size)
            assert image.mode in ("L", "RGB")
            assert image.getexif().get(0x0112, 1) == 1
            return np.asarray(image.convert("L"), dtype=float)

    return read


def test_a_jpeg_keeps_its_bytes_and_a_large_one_is_scaled_down(tmp_path, shown, write_image):
    path = write_image(tmp_path / "a.jpg", "navy", quality=70)
    assert read_page_image(path, SETTINGS) == (path.read_bytes(), (60, 40))
    assert shown(encoded(Image.new("RGB", (400, 200)), "JPEG")).shape == (50, 100)
    sizes = {(1, 1): (1, 1), (1, 200): (1, 200), (200, 1): (200, 1), (9000, 100): (4096, 46)}
    for size, kept in sizes.items():
        assert (
            shown(encoded(Image.new("L", size, 90), "PNG"), settings=RenderSettings()).shape
            == kept[::-1]
        )


@pytest.mark.parametrize(
    ("mode", "formats"),
    [
        ("L", ("PNG", "TIFF", "JPEG", "BMP", "WEBP", "GIF", "JPEG2000", "AVIF", "PPM")),
        ("P", ("PNG", "TIFF", "BMP", "GIF")),
        ("LA", ("PNG", "TIFF", "JPEG2000")),
        ("RGBA", ("PNG", "TIFF", "WEBP", "JPEG2000", "AVIF")),
        ("CMYK", ("TIFF", "JPEG")),
        ("YCbCr", ("TIFF", "JPEG")),
        ("LAB", ("TIFF",)),
        ("1", ("PNG", "TIFF", "BMP", "GIF", "PPM")),
    ],
)
def test_every_mode_shows_what_it_holds(shown, mode, formats):
    source = GREY if mode in ("L", "LA", "1") else GREY.convert("RGB")
    for format_ in formats:
        found = shown(encoded(source.convert(mode), format_))
        # black and white dots, or few colours, are right on the whole alone
        if mode in ("1", "P"):
            assert found.mean() == pytest.approx(SHOWN.mean(), abs=4)
        else:
            assert np.abs(found - SHOWN).mean() < 4


@pytest.mark.parametrize(
    ("bits", "format_"), [(16, "PNG"), (16, "TIFF"), (12, "PNG"), (10, "TIFF")]
)
def test_grey_values_of_16_bits_keep_their_steps_up_to_the_brightest(shown, bits, format_):
    deep = Image.fromarray((RAMP * (2**bits - 1)).astype(np.uint16))
    assert np.abs(shown(encoded(deep, format_)) - SHOWN).mean() < 4
    turned = Image.Exif()
    turned[0x0112] = 3
    assert np.abs(shown(encoded(deep, format_, exif=turned)) - SHOWN[::-1, ::-1]).mean() < 4


def test_black_of_a_tiff_may_be_the_largest_number(shown):
    deep = Image.fromarray(((1 - RAMP) * 65535).astype(np.uint16))
    data = encoded(deep, "TIFF")
    # the tag of what a number means: 0 is white
    data = data.replace(struct.pack("<HHIH", 262, 3, 1, 1), struct.pack("<HHIH", 262, 3, 1, 0))
    assert np.abs(shown(data) - SHOWN).mean() < 4


def test_what_libtiff_says_has_the_name_of_the_file(shown, capfd):
    data = encoded(Image.effect_noise((60, 40), 90).convert("1"), "TIFF", compression="group4")
    place = struct.unpack("<I", data[4:8])[0]
    cut = data[:8] + bytes(place - 8) + data[place:] if place > 8 else data[:-40] + bytes(40)
    with pytest.raises(DocumentError, match=r"a\.png.*(Fax|TIFF)"):
        shown(cut)
    assert capfd.readouterr().err == ""


def test_what_is_transparent_is_white(shown):
    assert shown(encoded(Image.new("RGBA", (20, 20), (0, 0, 0, 0)), "PNG")).min() == 255


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def test_pictures_are_turned_upright(shown, format_):
    upright = {
        1: SHOWN, 2: SHOWN[:, ::-1], 3: SHOWN[::-1, ::-1], 4: SHOWN[::-1], 5: SHOWN.T,
        6: SHOWN[::-1].T, 7: SHOWN[::-1, ::-1].T, 8: SHOWN.T[::-1],
    }  # fmt: skip
    for orientation, expected in upright.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        assert np.abs(shown(encoded(GREY.convert("RGB"), format_, exif=exif)) - expected).mean() < 4


def _ramp(scale, kind):
    return encoded(Image.fromarray((RAMP * scale).astype(kind)), "TIFF")


def _frames(format_):
    frame = GREY.convert("RGB")
    return encoded(frame, format_, save_all=True, append_images=[frame.rotate(180)])


def _wrong_tag():
    """Return a TIFF whose StripOffsets are a text."""
    data = encoded(Image.new("RGB", (8, 8)), "TIFF")
    return data.replace(struct.pack("<HHI", 273, 4, 1), struct.pack("<HHI", 273, 2, 1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: _ramp(9_000_000, np.int32),  # numbers without a scale
        lambda: _ramp(1, np.float32),
        lambda: _frames("TIFF"),  # several pictures
        lambda: _frames("WEBP"),
        lambda: _frames("PNG"),
        lambda: _frames("GIF"),
        _wrong_tag,
        lambda: _png(20_000, 10_000, zlib.compress(bytes(2501 * 10_000))),  # unpacks to too much
        *[lambda f=f: encoded(Image.new("RGB", (20, 20)), f) for f in ("ICO", "TGA", "SGI")],
    ],
)
def test_what_is_no_page_is_refused(shown, make):
    with pytest.raises(DocumentError, match=r"a\.png"):
        shown(make())


@pytest.mark.parametrize("format_", FORMATS)
def test_files_cut_anywhere_are_refused_or_whole(shown, format_):
    data, refused = encoded(GREY.convert("RGB"), format_), 0
    for cut in (*(len(data) * part // 12 for part in range(12)), len(data) - 1):
        try:  # what was cut off was no pixel, or
            assert np.abs(shown(data[:cut]) - SHOWN).mean() < 4
        except DocumentError as error:
            refused += "a.png" in str(error)
    assert refused >= 11


@pytest.mark.parametrize("format_", FORMATS)
def test_mutated_images_are_read_or_named(shown, format_):
    """Every error that a decoder raises on damage becomes an error of the file."""
    whole = encoded(Image.effect_noise((24, 16), 80).convert("RGB"), format_)
    random, refused = Random(7), 0
    for _ in range(25):
        data = bytearray(whole)
        for _ in range(random.randint(1, 6)):
            # headers and tag tables are at the ends
            position = random.choice([random.randrange(64), -1 - random.randrange(200)]) % len(data)
            data[position] = random.randrange(256)
        try:
            shown(data)
        except DocumentError as error:
            refused += "a.png" in str(error)
    assert refused > 0


def test_pixels_that_do_not_match_their_checksum_are_refused(shown):
    """The decoder would silently show the remaining pixels."""
    whole = encoded(Image.effect_noise((60, 40), 90), "PNG")
    start = whole.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", whole[start - 8 : start - 4])
    random = Random(1)
    for _ in range(40):
        data = bytearray(whole)
        data[start + random.randrange(length)] ^= 1 << random.randrange(8)
        with pytest.raises(DocumentError, match=r"a\.png"):
            shown(data)


def test_a_format_that_is_not_listed_is_never_decoded(shown, monkeypatch):
    """Pillow passes PostScript to Ghostscript, whatever the file's name."""
    called = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: called.append(1))
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n%%EOF\n"
    with pytest.raises(DocumentError, match=r"a\.png"):
        shown(script)
    assert not called


def _png(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
