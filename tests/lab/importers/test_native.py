"""Fields of rows at the limits of what is accepted."""

import json
import math
import warnings
from pathlib import Path

import pytest

from docagent_rl.lab.importers.native import (
    LONGEST_ID,
    LONGEST_TEXT,
    ImportedQuestion,
    NativeRow,
    Skip,
    as_pages,
    as_texts,
    document_id,
    image_page,
    is_file_name,
    is_span,
    name_of,
    parse_literal,
    without_pdf,
)
from docagent_rl.samples.sample import Split


def row(**values: object) -> NativeRow:
    return NativeRow(Path("file.json"), 0, values, "any", Split.TRAIN)


def draft(**values: object) -> ImportedQuestion:
    return ImportedQuestion(row(**values), "q", Split.TRAIN, "d", "What?")


def test_a_field_may_lie_in_objects_or_be_the_first_of_several():
    found = row(meta={"uid": 0}, uid="later")
    assert found.get("meta.uid|uid") == 0  # zero is there
    assert found.get("other|meta.other|uid") == "later"
    assert found.get("uid.deeper") is None
    assert (name_of("meta.uid|uid"), name_of("uid")) == ("uid", "uid")
    with pytest.raises(Skip, match="not an object"):
        NativeRow(Path("file.json"), 0, [1], "any").get("uid")


def test_texts_are_as_long_as_they_may_be():
    longest = "x" * LONGEST_TEXT
    assert row(q=longest).text("q") == longest
    for refused in (longest + "x", " \n", "", None, 7):
        with pytest.raises(Skip, match=r"field 'q' is missing, blank, too long or not a text"):
            row(meta={"q": refused}).text("meta.q")


def test_ids_are_texts_or_whole_numbers_that_are_one_line():
    assert (row(uid=7).id("uid"), row(uid="a 1").id("uid")) == ("7", "a 1")
    for refused in ("a\nb", True, 1.0):
        with pytest.raises(Skip, match="field 'uid'"):
            row(uid=refused).id("uid")


def test_names_of_files_have_no_folder_and_a_bounded_length():
    longest = "é" * (LONGEST_ID // 2)
    assert is_file_name(longest)
    assert is_file_name("a")
    for refused in (longest + "x", "", ".hidden", "a/b", "a\\b", " a", "a ", "a\tb"):
        assert not is_file_name(refused), refused
    assert document_id("report.v2.PDF", "doc") == without_pdf("report.v2.PDF") == "report.v2"
    for refused in ("a.pdf.pdf", "../a.pdf", ".pdf"):
        with pytest.raises(Skip, match="field 'doc'"):
            document_id(refused, "doc")


def test_spans_are_two_whole_numbers():
    assert is_span([1, 2])
    for refused in ([1], [1, 2, 3], [1, 2.0], [True, 2], (1, 2), None):
        assert not is_span(refused), refused


def test_lengths_are_whole_numbers_from_one():
    for given, expected in (
        (1, 1),
        (7, 7),
        (0, None),
        (-1, None),
        (True, None),
        ("7", None),
        (2.0, None),
    ):
        found = draft(pages=given)
        found.measure("pages")
        assert found.num_pages == expected, given


def test_a_text_is_parsed_up_to_the_longest():
    longest = "x" * (LONGEST_TEXT - 2)
    assert parse_literal(f'"{longest}"') == longest
    with pytest.raises(ValueError, match=f"{LONGEST_TEXT + 1} characters"):
        parse_literal(f'"{longest}x"')


def test_backslashes_in_other_people_s_texts_warn_nobody():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_literal(r"['\d', ('a', None)]") == [r"\d", ["a", None]]


@pytest.mark.parametrize("odd", [None, True, ["a"], {"a": 1}, math.nan, math.inf])
def test_one_odd_item_spoils_a_list_of_texts(odd):
    for items in ([odd], ["a", odd], [odd, "a"]):
        with pytest.raises(ValueError):
            as_texts(items)


def test_one_odd_item_spoils_a_list_of_pages():
    assert as_pages((1, "2", 3.0)) == [1, 2, 3]
    for items in ([1, "iv"], ["iv", 1], [1, 2.5]):
        with pytest.raises(ValueError, match="not a page number"):
            as_pages(items)


def test_a_field_that_cannot_be_read_is_kept_as_it_was():
    found = draft(meta={"pages": "[1, x"}, kinds="Table", blank=None)
    found.cite("meta.pages")
    assert (found.cites, found.native_pages) == ([], "[1, x")
    assert found.extra == {"parse_error": {"pages": "[1, x"}}
    assert found.notes == ["field 'pages' could not be read"]
    found.label("kinds")
    assert found.sources == ("Table",)
    found.label("blank")
    assert found.sources == ()
    found.keep("meta.pages|other", "kinds", "blank")
    assert {"pages": "[1, x", "kinds": "Table"}.items() <= found.extra.items()
    assert "blank" not in found.extra
    assert json.dumps(found.extra)


def test_a_list_of_labels_may_be_written_as_text():
    found = draft(kinds=" ['Table', 'Chart']")
    found.label("kinds")
    assert found.sources == ("Table", "Chart")


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("report_3.png", ("report", 3)),
        (r"img\\report.pdf_12.JPG", ("report", 12)),
        # what follows the dot is no format of images, so it belongs to the name
        ("report_v1.2_7", ("report_v1.2", 7)),
    ],
)
def test_the_name_of_a_page_image_is_its_document_and_page(name, page):
    assert tuple(image_page(name)) == page


def test_other_names_of_images_are_refused():
    for name in ("report.png", "report_3.txt", "_3.png", "report_x.png"):
        with pytest.raises(ValueError, match="not the image of a page"):
            image_page(name)
