"""Engines on real pictures of text."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import requests
from PIL import Image

from docagent_rl.documents.ocr import OcrEngineKind, OcrSettings, engine_key, make_engine
from docagent_rl.errors import UserError
from tests.documents.scans import TEXT, draw_text, font

needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")
ENGINES = pytest.mark.parametrize("name", ["rapidocr", pytest.param("tesseract", marks=needs_tesseract)])


def _engine(name):
    return make_engine(OcrSettings(engine=OcrEngineKind(name)))


@pytest.mark.slow
@ENGINES
def test_lines_are_read_and_words_lie_where_they_are_drawn(name, monkeypatch):
    """And without a network, also when the engine starts."""

    def refuse(*args, **options):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(requests, "get", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    image = draw_text(TEXT)
    lines = _engine(name).read(image)
    assert [line.text for line in lines] == list(TEXT)
    assert [word.text for word in lines[1].words] == TEXT[1].split()
    start = 40
    for word in lines[1].words:
        end = start + font(14).getlength(word.text)
        left, top, right, bottom = (side * edge for side, edge in zip(word.box, image.size * 2, strict=True))
        assert (left, right) == pytest.approx((start, end), abs=14)
        assert 86 <= top < 110 < bottom <= 140
        start = end + font(14).getlength(" ")


@pytest.mark.slow
@ENGINES
def test_pictures_of_odd_sizes_and_noise_are_read_without_an_error(name):
    noise = np.random.default_rng(3).integers(0, 255, (1600, 1600, 3), dtype=np.uint8)
    for width, height in ((8, 8), (8, 1600), (1600, 8), (31, 33), (300, 300)):
        assert _engine(name).read(Image.new("RGB", (width, height), "white")) == ()
        lines = _engine(name).read(Image.fromarray(noise[:height, :width]))
        assert all(line.text.strip() for line in lines)


@pytest.mark.slow
@ENGINES
def test_the_key_is_known_before_the_engine_starts(name):
    settings = OcrSettings(engine=OcrEngineKind(name))
    assert engine_key(settings) == make_engine(settings).key
    assert engine_key(settings).startswith(name)


def test_what_is_missing_is_one_error(monkeypatch, tmp_path):
    monkeypatch.setattr("docagent_rl.documents.ocr.rapid._DETECTION", "other.onnx")
    with pytest.raises(UserError, match=r"other\.onnx"):
        engine_key(OcrSettings())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="tesseract-ocr"):
        engine_key(OcrSettings(engine=OcrEngineKind.TESSERACT))


@needs_tesseract
def test_a_missing_language_is_one_error():
    with pytest.raises(UserError, match="xyz"):
        engine_key(OcrSettings(engine=OcrEngineKind.TESSERACT, language="eng+xyz"))
