from __future__ import annotations

import numpy as np
import pypdfium2
import pytest

from learning.pages import SIDE_PT, NumberPage, number_pages_pdf

PAGES = [NumberPage("water", "73", (1.5, -1.5)), NumberPage("cost", "18")]


def rendered(pdf):
    document = pypdfium2.PdfDocument(pdf)
    pages = [document[number] for number in range(len(document))]
    texts = [page.get_textpage().get_text_range() for page in pages]
    return [np.asarray(page.render(scale=2).to_pil().convert("L")) for page in pages], texts


def test_the_number_is_painted_near_the_middle():
    (image, centred), _ = rendered(number_pages_pdf(PAGES))
    assert image.shape == (2 * SIDE_PT, 2 * SIDE_PT)
    rows, columns = np.nonzero(centred < 128)
    assert abs(rows.mean() - SIDE_PT) < 4
    assert abs(columns.mean() - SIDE_PT) < 4
    moved_rows, moved_columns = np.nonzero(image < 128)
    # 1.5 points are 3 pixels; upwards is negative in PDF and positive here
    assert moved_columns.mean() - SIDE_PT == pytest.approx(3, abs=2)
    assert moved_rows.mean() - SIDE_PT == pytest.approx(3, abs=2)


def test_the_word_is_in_the_text_layer_only():
    (image, _), texts = rendered(number_pages_pdf([PAGES[0], NumberPage("water", "")]))
    assert "water" in texts[0]
    (_, nothing), _ = rendered(number_pages_pdf([PAGES[0], NumberPage("water", "")]))
    assert nothing.min() == 255
    assert image.min() < 50


def test_a_blank_page_keeps_its_text_and_loses_its_picture():
    images, texts = rendered(number_pages_pdf(PAGES))
    white, same_texts = rendered(number_pages_pdf(PAGES, blank=True))
    assert same_texts == texts
    assert all(image.min() == 255 for image in white)
    assert all(image.min() < 50 for image in images)


def test_equal_pages_give_equal_bytes():
    assert number_pages_pdf(PAGES) == number_pages_pdf(list(PAGES))
    assert number_pages_pdf(PAGES) != number_pages_pdf(PAGES[:1])
