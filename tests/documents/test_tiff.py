"""TIFFs of several pages, as scanners write them."""

import io
import struct

import pytest
from PIL import Image, TiffImagePlugin

from docagent_rl.documents.sources import SourceKind, discover
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.tiff import page_frames
from tests.documents.here import interrupted_after

COLOURS = ("red", "lime", "blue")


def tiff(*colours: str, big: bool = False, reduced: int | None = None) -> bytes:
    """Return a TIFF with a picture of each colour; one of them may be a smaller copy."""
    buffer = io.BytesIO()
    frames = [Image.new("RGB", (60, 40), colour) for colour in colours]
    if reduced is not None:
        tags = TiffImagePlugin.ImageFileDirectory_v2()
        tags[254] = 1
        frames[reduced].encoderinfo = {"tiffinfo": tags}
    frames[0].save(buffer, "TIFF", save_all=True, append_images=frames[1:], big_tiff=big)
    return buffer.getvalue()


def write_tiff(path, *colours, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tiff(*colours, **options))
    return path


@pytest.mark.parametrize("big", [False, True])
def test_pages_are_counted_without_copies_of_them(tmp_path, big):
    assert page_frames(write_tiff(tmp_path / "a.tif", *COLOURS, big=big)) == [0, 1, 2]
    assert page_frames(write_tiff(tmp_path / "b.tif", *COLOURS, big=big, reduced=1)) == [0, 2]


def test_what_is_no_tiff_or_leads_in_a_circle_has_no_endless_pages(tmp_path):
    path = tmp_path / "a.tif"
    for data in (b"", b"II", b"a text that is longer than a head", tiff("red")[:9]):
        path.write_bytes(data)
        assert page_frames(path) == []
    data = bytearray(tiff("red"))
    (first,) = struct.unpack("<I", data[4:8])
    (count,) = struct.unpack("<H", data[first : first + 2])
    end = first + 2 + 12 * count
    data[end : end + 4] = struct.pack("<I", first)
    path.write_bytes(data)
    assert page_frames(path) == [0]


def test_a_tiff_of_several_pages_is_a_document_wherever_it_lies(
    inbox, store_path, ingested, write_image
):
    write_tiff(inbox / "letter.tif", *COLOURS)
    write_tiff(inbox / "sub" / "Scan_0007.TIFF", *COLOURS[:2])
    write_image(inbox / "deck" / "1.tif")
    kinds = {document.doc_id: document.kind for document in discover(inbox).documents}
    assert kinds == {
        "letter": SourceKind.TIFF,
        "sub/Scan_0007": SourceKind.TIFF,
        "deck": SourceKind.IMAGES,
    }
    assert discover(inbox / "letter.tif").documents[0].doc_id == "letter"
    assert ingested().pages == 6
    assert ingested().skipped == ["deck", "letter", "sub/Scan_0007"]
    document = DocumentStore(store_path).document("letter")
    assert [page_colour(document.page(number)) for number in (1, 2, 3)] == [0, 1, 2]


def page_colour(page) -> int:
    """Return the brightest channel of a page."""
    pixel = page.image().getpixel((5, 5))
    return pixel.index(max(pixel))


def test_ranges_of_a_long_tiff_go_on_where_they_stopped(inbox, store_path, ingested):
    write_tiff(inbox / "long.tif", *(COLOURS * 6))
    with interrupted_after(1):
        with pytest.raises(KeyboardInterrupt):
            ingested()
        assert ingested().resumed_pages == 16
    document = DocumentStore(store_path).document("long")
    assert [page_colour(document.page(number)) for number in (1, 17, 18)] == [0, 1, 2]


def test_a_page_of_a_tiff_that_is_damaged_fails_it_by_name(inbox, ingested):
    data = write_tiff(inbox / "bad.tif", *COLOURS).read_bytes()
    (inbox / "bad.tif").write_bytes(
        data.replace(struct.pack("<HHI", 273, 4, 1), struct.pack("<HHI", 273, 2, 1))
    )
    (failure,) = ingested().failed
    assert failure.name == "bad.tif"
