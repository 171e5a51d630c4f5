"""Both engines on real pictures of text."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

from docagent_rl.documents.ocr import OcrEngineKind, OcrSettings, engine_key, make_engine
from docagent_rl.errors import UserError
from tests.documents.scans import TEXT, draw_text, font

needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")
ENGINES = ["rapidocr", pytest.param("tesseract", marks=needs_tesseract)]


def _engine(name):
    return make_engine(OcrSettings(engine=OcrEngineKind(name)))


@pytest.mark.parametrize("name", ENGINES)
def test_lines_are_read(name):
    assert [line.text for line in _engine(name).read(draw_text(TEXT))] == list(TEXT)


@pytest.mark.parametrize("name", ENGINES)
def test_words_lie_where_they_are_drawn(name):
    image = draw_text(TEXT)
    line = _engine(name).read(image)[1]
    assert [word.text for word in line.words] == TEXT[1].split()
    start = 40
    for word in line.words:
        end = start + font(14).getlength(word.text)
        left, top, right, bottom = (side * edge for side, edge in zip(word.box, image.size * 2, strict=True))
        assert (left, right) == pytest.approx((start, end), abs=14)
        assert 86 <= top < 110 < bottom <= 140
        start = end + font(14).getlength(" ")


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("size", [(8, 8), (8, 1600), (1600, 8), (31, 33), (3000, 20)])
def test_pictures_of_odd_sizes_hold_no_words(name, size):
    assert _engine(name).read(Image.new("RGB", size, "white")) == ()


@pytest.mark.parametrize("name", ENGINES)
def test_noise_is_read_without_an_error(name):
    noise = np.random.default_rng(3).integers(0, 255, (300, 300, 3), dtype=np.uint8)
    for line in _engine(name).read(Image.fromarray(noise)):
        assert line.text.strip()


@pytest.mark.parametrize("name", ENGINES)
def test_the_key_is_known_before_the_engine_starts(name):
    settings = OcrSettings(engine=OcrEngineKind(name))
    assert engine_key(settings) == make_engine(settings).key
    assert engine_key(settings).startswith(name)


def test_rapidocr_starts_and_reads_without_a_network(monkeypatch):
    import requests

    def refuse(*args, **options):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(requests, "get", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    make_engine.cache_clear()
    assert _engine("rapidocr").read(draw_text(TEXT[:1]))[0].text == TEXT[0]


def test_a_missing_model_is_one_error(monkeypatch):
    monkeypatch.setattr("docagent_rl.documents.ocr.rapid._DETECTION", "other.onnx")
    with pytest.raises(UserError, match=r"no model other\.onnx"):
        engine_key(OcrSettings())


def test_a_missing_program_is_one_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="apt install tesseract-ocr"):
        engine_key(OcrSettings(engine=OcrEngineKind.TESSERACT))


@needs_tesseract
def test_a_missing_language_is_one_error():
    with pytest.raises(UserError, match=r"no language xyz.*choose among"):
        engine_key(OcrSettings(engine=OcrEngineKind.TESSERACT, language="eng+xyz"))


@pytest.mark.parametrize("language", ["", "eng;rm", "-l", "../x", "eng+"])
def test_a_language_is_a_name(language):
    with pytest.raises(UserError, match="language="):
        OcrSettings(language=language)
