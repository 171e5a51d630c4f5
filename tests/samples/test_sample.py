import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import one_line
from docagent_rl.samples.sample import Sample, Split, as_whole, is_digits, parse_page_id
from docagent_rl.samples.validation import check_sample, validate_sample


def test_json_form(make_sample):
    sample = make_sample(evidence_boxes={5: ((0.1, 0.2, 0.5, 0.25),), 2: ((0.0, 0.0, 1.0, 1.0),)})
    data = json.loads(sample.to_json())
    assert list(data) == list(Sample.__dataclass_fields__)
    assert list(data["evidence_boxes"]) == ["2", "5"]  # page order, whatever the order of insertion
    assert (data["evidence_boxes"]["5"], data["split"]) == ([[0.1, 0.2, 0.5, 0.25]], "train")


_words = st.text(min_size=1, max_size=12)
_ids = _words.map(one_line)
_edges = st.floats(0, 1)
_boxes = st.lists(st.tuples(_edges, _edges, _edges, _edges), max_size=3).map(tuple)


@settings(max_examples=50)
@given(
    sample=st.builds(
        Sample,
        question_id=_ids,
        dataset=_ids,
        split=st.sampled_from(Split),
        doc_id=_ids,
        question=_words,
        answers=st.lists(_words).map(tuple),
        evidence_pages=st.lists(st.integers()).map(tuple),
        evidence_boxes=st.dictionaries(st.integers(0, 99), _boxes),
        evidence_sources=st.lists(_words).map(tuple),
        answerable=st.sampled_from([True, False, None]),
        extra=st.dictionaries(_words, st.none() | st.integers() | _words | st.lists(_words)),
    )
)
def test_any_sample_survives_json(sample):
    text = sample.to_json()
    assert "\n" not in text
    assert Sample.from_json(text) == sample
    assert Sample.from_json(text).to_json() == text


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("question", 3, "'question'"),
        ("answers", "41", "'answers'"),
        ("answers", [41], r"'answers\.0'"),
        ("split", "dev", "'split'"),
        *(("evidence_pages", [value], r"'evidence_pages\.0'") for value in (1.0, True)),
        ("evidence_boxes", {"²": []}, "'²'"),
        *(
            ("evidence_boxes", {"2": value}, r"'evidence_boxes\.2")
            for value in (1, [[0, 0, 1]], [[0, 0, 1, float("nan")]])
        ),
        ("answerable", "yes", "'answerable'"),
        ("extra", [], "'extra'"),
    ],
)
def test_wrong_types_are_named(make_sample, field, value, named):
    with pytest.raises(UserError, match=named):
        Sample.from_dict({**make_sample().to_dict(), field: value})


def test_missing_and_unknown_fields_are_named(make_sample):
    data = make_sample().to_dict()
    with pytest.raises(UserError, match="'page'"):
        Sample.from_dict({**data, "page": 3})
    del data["doc_id"]
    with pytest.raises(UserError, match="'doc_id'"):
        Sample.from_dict(data)


def test_a_good_sample_has_no_problems(make_sample):
    assert validate_sample(make_sample()) == []
    assert check_sample(make_sample()) == make_sample()
    nothing = {"answerable": False, "answers": (), "evidence_pages": (), "evidence_boxes": {}}
    assert validate_sample(make_sample(**nothing)) == []
    assert validate_sample(make_sample(answerable=None, answers=())) == []


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"question_id": " "}, "'question_id'"),
        ({"question": ""}, "'question'"),
        ({"question": "\u200b"}, "'question' consists only of spaces"),
        ({"question": "\x00"}, "'question' contains a NUL"),
        ({"question": "who?" * 16_385}, "'question' has 65,540 characters"),
        ({"answers": ("yes", "\u2060")}, "'answers': an answer consists only of spaces"),
        ({"question_id": "\u200b"}, "'question_id'"),
        ({"doc_id": "/a/b"}, "'doc_id'"),
        ({"doc_id": "a.PDF"}, "'doc_id'"),
        ({"answers": ()}, "'answers'"),
        ({"answerable": False}, "'answers'"),
        ({"evidence_pages": (5, 2)}, "[5, 2]"),
        ({"evidence_pages": (2, 2, 5)}, "[2, 2, 5]"),
        ({"evidence_pages": (0, 5)}, "page 0"),
        ({"evidence_pages": (5, 10)}, "page 10"),
        ({"evidence_pages": (2,)}, "page 5"),
        ({"evidence_boxes": {5: ((0.5, 0.2, 0.5, 0.3),)}}, "[0.5, 0.2, 0.5, 0.3]"),
        ({"evidence_boxes": {5: ((0.1, 0.2, 1.5, 0.3),)}}, "[0.1, 0.2, 1.5, 0.3]"),
        ({"evidence_boxes": {5: ((0.1, -0.2, 0.5, 0.3),)}}, "[0.1, -0.2, 0.5, 0.3]"),
        ({"extra": {"page_ids": ["report.v2"]}}, "'report.v2'"),
        ({"extra": {"page_ids": "report.v2#2"}}, "'extra.page_ids'"),
        ({"extra": {"page_ids": ["report.v2#2"]}}, "'evidence_pages'"),
    ],
)
def test_each_problem_is_found_once(make_sample, changes, named):
    (problem,) = validate_sample(make_sample(**changes))
    assert named in problem
    with pytest.raises(UserError, match=re.escape(named)):
        check_sample(make_sample(**changes))


def test_gold_pages(make_sample):
    assert make_sample().gold_pages == {("report.v2", 2), ("report.v2", 5)}
    sample = make_sample(extra={"page_ids": ["report.v2#5", "a#b#1", "a#b#1"]})
    assert sample.gold_pages == {("report.v2", 5), ("a#b", 1)}


@pytest.mark.parametrize("page_id", ["#3", "a#", "a#0", "a#-1", "a#²", "a", 3, "a#" + "9" * 5000])
def test_page_ids_that_are_none(page_id):
    with pytest.raises(UserError, match=r"extra\.page_ids"):
        parse_page_id(page_id)


def test_half_a_character_behind_an_escape_is_refused(make_sample):
    """Every file can hold the escape; the tokenizer cannot take what it stands for."""
    text = make_sample(question="Who?").to_json()
    for broken in (
        text.replace("Who?", r"Who \ud83d?"),
        text.replace('"extra": {', r'"extra": {"a": ["\udc4d"],'),
    ):
        assert broken != text
        with pytest.raises(UserError, match=r"'.ud"):
            Sample.from_json(broken)
    assert Sample.from_json(text.replace("Who?", r"\ud83d\udc4d")).question == "👍"


def test_values_without_a_json_form_are_refused(make_sample):
    for value in ({1, 2}, float("nan")):
        with pytest.raises(UserError, match="'q1'"):
            make_sample(extra={"odd": value}).to_json()


def test_digits_are_nine_at_most():
    assert is_digits("123456789")
    assert not is_digits("1234567890")
    assert not any(map(is_digits, ("", "1 ", "-1", "²", "1.0", 7, None)))
    assert [as_whole(each) for each in (" 7 ", 7.0, 7.5, "x", "1234567890")] == [
        7,
        7,
        7.5,
        "x",
        "1234567890",
    ]


def test_a_wrong_value_is_shown_by_its_beginning(make_sample):
    value = ["x" * 500]
    with pytest.raises(UserError) as caught:
        Sample.from_dict({**make_sample().to_dict(), "question": value})
    assert str(caught.value).endswith(f"found list {repr(value)[:80]}")
    name = "y" * 500
    with pytest.raises(UserError) as caught:
        Sample.from_dict({**make_sample().to_dict(), name: 1})
    assert str(caught.value).startswith(f"field '{name[:80]}': ")


@pytest.mark.parametrize("field", ["question_id", "dataset", "doc_id"])
def test_ids_are_one_line(make_sample, field):
    with pytest.raises(UserError, match=f"field '{field}': "):
        make_sample(**{field: "a\nb"})
    with pytest.raises(UserError, match=f"field '{field}': "):
        Sample.from_dict({**make_sample().to_dict(), field: "a\nb"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "lists",
            "'lists' is not an answer format; did you mean 'list'? Formats are abstractive, ",
        ),
        ("List/extractiv", "did you mean 'list/extractive'?"),
        ("", "'' is not an answer format; formats are abstractive, "),
    ],
)
def test_a_format_of_answers_is_one_of_a_closed_list(make_sample, name, hint):
    # else one item of a list would be the whole answer
    with pytest.raises(UserError, match=f"^field 'answer_format': .*{re.escape(hint)}"):
        make_sample(answer_format=name)
    with pytest.raises(UserError, match=re.escape(hint)):
        Sample.from_dict({**make_sample().to_dict(), "answer_format": name})


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("List", True),
        ("list/abstractive", True),
        (" LIST ", True),
        ("Str", False),
        ("extractive", False),
    ],
)
def test_answers_are_items_of_a_list_or_alternatives(make_sample, name, listed):
    assert make_sample(answer_format=name).lists_answers is listed


def test_fields_with_a_default_have_to_be_there_too(make_sample):
    data = make_sample().to_dict()
    del data["extra"]
    del data["answer_format"]
    with pytest.raises(UserError, match=r"^field 'answer_format' is missing$"):
        Sample.from_dict(data)


def test_pages_of_evidence_are_a_list(make_sample):
    with pytest.raises(UserError, match="must be a list of 'doc#page' strings"):
        _ = make_sample(extra={"page_ids": "a#1"}).gold_pages
    assert make_sample(extra={"page_ids": ("a#1", "a#10")}).gold_pages == {("a", 1), ("a", 10)}
    assert parse_page_id("a#999999999") == ("a", 999_999_999)
    with pytest.raises(UserError, match=r"'extra\.page_ids': "):
        parse_page_id("a\nb#1")


@pytest.mark.parametrize("native", [None, "", 7, ["abc"]])
def test_a_document_without_a_native_id_has_its_own_key(make_sample, native):
    sample = make_sample(doc_id="abc-0f", extra={"native_doc_id": native})
    assert sample.document_key == "abc-0f"
    assert sample.document_keys == {"abc-0f"}


def test_windows_of_a_document_have_its_key(make_sample):
    """A window's own id is no key: parts and leaks would take two windows for two documents."""
    window = make_sample(doc_id="abc-0f", extra={"native_doc_id": "abc"})
    assert (window.document_key, window.document_keys) == ("abc", {"abc"})
    pages = ["abc-0f#2", "other#1", "abc#3"]
    cites = make_sample(doc_id="abc-0f", extra={"native_doc_id": "abc", "page_ids": pages})
    assert cites.document_keys == {"abc", "other"}


def test_a_document_id_is_spelt_as_stores_spell_it(make_sample):
    assert make_sample(doc_id="U\u0308bersicht").doc_id == "\u00dcbersicht"
