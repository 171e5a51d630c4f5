import dataclasses

import numpy as np
import pytest
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayRule
from docagent_rl.documents.shown import ShownRasters
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import ImageRef, Resample, render
from docagent_rl.envs.views import page_view


@pytest.fixture
def page(store):
    return store.page(PageRef("K", 2))


def ref_of(page, raster, size):
    return ImageRef(page.ref, page.image_hash, raster, size)


def test_resampling(store, page):
    plain = ref_of(page, (0, 0, *page.size), (181, 128))
    sharp = dataclasses.replace(plain, resample=Resample.LANCZOS)
    assert plain.key != sharp.key
    assert (plain.to_dict()["resample"], sharp.to_dict()["resample"]) == ("bicubic", "lanczos")
    for ref, way in ((plain, Image.Resampling.BICUBIC), (sharp, Image.Resampling.LANCZOS)):
        assert render(ref, store).tobytes() == page.image().resize((181, 128), way).tobytes()


def test_nothing_bleeds_in_from_outside_the_crop(store, page):
    """The grey box of the page, cut inside its border, is flat at any size."""
    width, height = page.size
    left, right = int(0.60 * width), int(0.75 * width)
    top, bottom = int(0.60 * height), int(0.75 * height)
    pixels = np.asarray(render(ref_of(page, (left, top, right, bottom), (900, 700)), store))
    assert pixels.std() < 2
    assert abs(pixels.mean() - 0.2 * 255) < 4


def test_another_picture_than_the_reference_means(store, page, keeping):
    ref = ref_of(page, (0, 0, *page.size), (100, 80))
    for where in (store, keeping[0]):
        render(ref, where)
        with pytest.raises(UserError, match="K#2"):
            render(dataclasses.replace(ref, page_hash="0" * 64), where)
        with pytest.raises(UserError):
            render(dataclasses.replace(ref, page=PageRef("Z", 1)), where)


@pytest.fixture
def keeping(store, tmp_path):
    folder = tmp_path / "shown"
    return DocumentStore(store.path, shown=ShownRasters([folder], capacity=1 << 30)), folder


def kept_in(folder):
    return sorted(path.stem for path in folder.rglob("*.rgb"))


def test_whole_pages_are_drawn_once_for_all_and_are_the_same_pixels(store, page, keeping, monkeypatch):
    keeper, folder = keeping
    refs = [
        page_view(page, DisplayRule(), 1).image,
        dataclasses.replace(ref_of(page, (0, 0, *page.size), (181, 128)), resample=Resample.LANCZOS),
    ]
    plain = [render(ref, store).tobytes() for ref in refs]
    # crops and pages as they are stored are not kept
    render(ref_of(page, (0, 0, *page.size), page.size), keeper)
    render(ref_of(page, (0, 0, 100, 100), (50, 50)), keeper)
    assert [render(ref, keeper).tobytes() for ref in refs] == plain
    assert kept_in(folder) == sorted(ref.key for ref in refs)
    monkeypatch.setattr(DocumentStore, "decode", lambda *_: pytest.fail("drawn again"))
    other = DocumentStore(store.path, shown=ShownRasters([folder], capacity=1 << 30))
    assert [render(ref, other).tobytes() for ref in refs] == plain
