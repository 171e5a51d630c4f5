from __future__ import annotations

import numpy as np
import pypdfium2
import pytest

from learning.pages import SIDE_PT, NumberPage, number_pages_pdf

PAGES = [NumberPage("water", "73", (1.5, -1.5)), NumberPage("cost", "18"), NumberPage("water", "")]


def rendered(pdf):
    pages = list(pypdfium2.PdfDocument(pdf))
    texts = [page.get_textpage().get_text_range() for page in pages]
    return [np.asarray(page.render(scale=2).to_pil().convert("L")) for page in pages], texts


def test_the_number_is_painted_near_the_middle_and_the_word_is_in_the_text_layer_only():
    (moved, centred, nothing), texts = rendered(number_pages_pdf(PAGES))
    assert moved.shape == (2 * SIDE_PT, 2 * SIDE_PT)
    rows, columns = np.nonzero(centred < 128)
    assert (rows.mean(), columns.mean()) == pytest.approx((SIDE_PT, SIDE_PT), abs=4)
    rows, columns = np.nonzero(moved < 128)
    # 1.5 points are 3 pixels; upwards is negative in PDF and positive here
    assert (rows.mean() - SIDE_PT, columns.mean() - SIDE_PT) == pytest.approx((3, 3), abs=2)
    assert "water" in texts[0]
    assert nothing.min() == 255


def test_a_blank_page_keeps_its_text_and_loses_its_picture():
    _, texts = rendered(number_pages_pdf(PAGES))
    white, same_texts = rendered(number_pages_pdf(PAGES, blank=True))
    assert same_texts == texts
    assert all(image.min() == 255 for image in white)
    assert number_pages_pdf(PAGES) == number_pages_pdf(list(PAGES)) != number_pages_pdf(PAGES[:1])
