"""Single values of a trajectory file, which may contain anything."""

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.recorded import (
    box_of,
    flag_of,
    listing,
    mapping,
    number_of,
    page_of,
    raster_of,
    size_of,
    span_of,
    text_of,
    whole_of,
)

ANYTHING = (
    None,
    True,
    0,
    1,
    0.5,
    "",
    "x",
    [],
    {},
    [1, 2],
    [1, 2, 3, 4],
    [0.5] * 4,
    (1, 2),
    ["a"] * 4,
)


@pytest.mark.parametrize(
    ("read", "taken"),
    [
        (text_of, ["", "x"]),
        (whole_of, [0, 1]),
        (number_of, [0, 1, 0.5]),
        (flag_of, [True]),
        (size_of, [(1, 2), (1, 2)]),
        (span_of, [(1, 2), (1, 2)]),
        (raster_of, [(1, 2, 3, 4)]),
        (box_of, [(1, 2, 3, 4), (0.5,) * 4]),
    ],
)
def test_a_value_of_another_kind_is_none(read, taken):
    found = [read(value) for value in ANYTHING]
    assert [value for value in found if value is not None] == taken


def test_what_is_no_object_and_no_list_is_empty():
    assert [mapping(value) for value in ("x", None, [1])] == [{}, {}, {}]
    assert [listing(value) for value in ("x", None, {"a": 1})] == [(), (), ()]
    assert (mapping({"a": 1}), listing([1]), listing((1,))) == ({"a": 1}, [1], (1,))


@pytest.mark.parametrize(
    "value", ["r", "r#", "#1", "r#0", "r#-1", "r#x", "r\n#1", "r#" + "9" * 5000, 3, None]
)
def test_what_is_no_page_is_none(value):
    assert page_of(value) is None


def test_a_page_is_a_document_and_a_number():
    assert page_of("a#b#10") == PageRef("a#b", 10)
    # letters and their marks apart, as some systems write them
    assert page_of("re\u0301sume\u0301#1") == PageRef("r\u00e9sum\u00e9", 1)
