"""Files with more pages than they state."""

import re

import pytest

from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.page_tree import check_page_count
from docagent_rl.documents.pdf import open_pdf
from docagent_rl.documents.settings import DocumentError


def miscounted(path, write_pdf, pages, count):
    """Write a PDF that states another number of pages; its length does not change."""
    data = write_pdf(path, ["page"] * pages).read_bytes()
    changed, times = re.subn(
        rb"/Count %d\b" % pages, b"/Count " + str(count).encode().rjust(len(str(pages))), data
    )
    assert times == 1
    path.write_bytes(changed)
    return path


def test_pages_beyond_the_count_are_not_left_out_in_silence(inbox, write_pdf, tmp_path):
    miscounted(inbox / "short.pdf", write_pdf, 30, 1)
    write_pdf(inbox / "whole.pdf", ["page"] * 3)
    report = ingest(inbox, tmp_path / "store", workers=1)
    assert list(report.ingested) == ["whole"]
    (failure,) = report.failed
    assert failure.name == "short.pdf"
    assert "1 pages (/Count), but its page tree contains 30" in failure.reason


def test_a_right_count_and_a_tree_that_cannot_be_walked_say_nothing(inbox, write_pdf):
    whole = write_pdf(inbox / "a.pdf", ["page"] * 200)
    with open_pdf(whole) as pdf:
        assert len(list(check_page_count(pdf))) == 3
    with open_pdf(miscounted(inbox / "b.pdf", write_pdf, 3, 9)) as pdf:
        assert list(check_page_count(pdf)) == []
    with (
        open_pdf(miscounted(inbox / "c.pdf", write_pdf, 3, 1)) as pdf,
        pytest.raises(DocumentError),
    ):
        list(check_page_count(pdf))
    with open_pdf(whole) as pdf:
        whole.write_bytes(whole.read_bytes().replace(b"/Kids", b"/Gone"))
        assert list(check_page_count(pdf)) == []
