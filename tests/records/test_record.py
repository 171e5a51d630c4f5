from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import one_line
from docagent_rl.records.record import (
    Record,
    Split,
    check_record,
    parse_page_id,
    read_jsonl,
    validate_record,
    write_jsonl,
)

Make = Callable[..., Record]


def test_json_form(make_record):
    record = make_record(evidence_boxes={5: ((0.1, 0.2, 0.5, 0.25),), 2: ((0.0, 0.0, 1.0, 1.0),)})
    data = json.loads(record.to_json())
    assert list(data) == list(Record.__dataclass_fields__)
    assert list(data["evidence_boxes"]) == ["2", "5"]  # page order, whatever the order of insertion
    assert (data["evidence_boxes"]["5"], data["split"]) == ([[0.1, 0.2, 0.5, 0.25]], "train")


_words = st.text(min_size=1, max_size=12)
_ids = _words.map(one_line)
_edges = st.floats(0, 1)
_boxes = st.lists(st.tuples(_edges, _edges, _edges, _edges), max_size=3).map(tuple)


@settings(max_examples=50)
@given(
    record=st.builds(
        Record,
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
def test_any_record_survives_json(record):
    text = record.to_json()
    assert "\n" not in text
    assert Record.from_json(text) == record
    assert Record.from_json(text).to_json() == text


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("question", 3, "'question'"),
        ("answers", "41", "'answers'"),
        ("answers", [41], "'answers'"),
        *(("split", value, "'split'") for value in ("dev", [])),
        *(("evidence_pages", [value], "'evidence_pages'") for value in (1.0, True)),
        ("evidence_boxes", [], "'evidence_boxes'"),
        ("evidence_boxes", {"-2": []}, "'-2'"),
        ("evidence_boxes", {"²": []}, "'²'"),
        *(
            ("evidence_boxes", {"2": value}, r"'evidence_boxes\.2'")
            for value in (1, [[0, 0, 1]], [[0, 0, 1, float("nan")]])
        ),
        ("answerable", "yes", "'answerable'"),
        ("extra", [], "'extra'"),
    ],
)
def test_wrong_types_are_named(make_record, field, value, named):
    with pytest.raises(UserError, match=named):
        Record.from_dict({**make_record().to_dict(), field: value})


def test_missing_and_unknown_fields_are_named(make_record):
    data = make_record().to_dict()
    with pytest.raises(UserError, match="'page'"):
        Record.from_dict({**data, "page": 3})
    del data["doc_id"]
    with pytest.raises(UserError, match="'doc_id'"):
        Record.from_dict(data)


def test_a_good_record_has_no_problems(make_record):
    assert validate_record(make_record()) == []
    assert check_record(make_record(), num_pages=5) == make_record()
    nothing = {"answerable": False, "answers": (), "evidence_pages": (), "evidence_boxes": {}}
    assert validate_record(make_record(**nothing)) == []
    assert validate_record(make_record(answerable=None, answers=())) == []


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"question_id": " "}, "'question_id'"),
        ({"question": ""}, "'question'"),
        ({"doc_id": "a/b"}, "'doc_id'"),
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
def test_each_problem_is_found_once(make_record, changes, named):
    (problem,) = validate_record(make_record(**changes))
    assert named in problem
    with pytest.raises(UserError, match=re.escape(named)):
        check_record(make_record(**changes))


def test_required_keys_of_extra_and_lengths(make_record):
    record = Record.from_dict({**make_record().to_dict(), "extra": {"gold": 1, "native_id": 2}})
    first, second = validate_record(record)
    assert "'num_pages'" in first
    assert "'row'" in second
    # the length given beats the length stated
    assert "page 5" in validate_record(make_record(), num_pages=4)[0]
    assert validate_record(make_record(extra={"num_pages": None}, evidence_pages=(2, 5, 1000))) == []


def test_gold_pages(make_record):
    assert make_record().gold_pages == {("report.v2", 2), ("report.v2", 5)}
    record = make_record(extra={"page_ids": ["report.v2#5", "a#b#1", "a#b#1"]})
    assert record.gold_pages == {("report.v2", 5), ("a#b", 1)}


@pytest.mark.parametrize("page_id", ["#3", "a#", "a#0", "a#-1", "a#²", "a", 3])
def test_page_ids_that_are_none(page_id):
    with pytest.raises(UserError, match=r"extra\.page_ids"):
        parse_page_id(page_id)


def test_files(make_record, tmp_path):
    records = [make_record(question_id=f"q{index}", question="Größe?") for index in range(3)]
    path = write_jsonl(records, tmp_path / "new" / "records.jsonl")
    assert read_jsonl(path) == records
    path.write_text("\n" + path.read_text(encoding="utf-8") + "\n\n", encoding="utf-8")
    assert read_jsonl(path) == records


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"split": "dev"}', r"records\.jsonl:2.*'question_id'"),
        ("[]", r"records\.jsonl:2.*list"),
        ("{", r"records\.jsonl:2"),
        (b"PAR1\xff\xfe", str),
        (None, str),
    ],
)
def test_errors_name_file_line_and_field(make_record, tmp_path, line, named):
    path = tmp_path / "records.jsonl"
    if isinstance(line, str):
        path.write_text(f"{make_record().to_json()}\n{line}\n")
    elif line is not None:
        path.write_bytes(line)
    with pytest.raises(UserError, match=re.escape(str(path)) if named is str else named):
        read_jsonl(path)


def test_half_a_character_behind_an_escape_is_refused(make_record):
    """Every file can hold the escape; the tokenizer cannot take what it stands for."""
    text = make_record(question="Who?").to_json()
    for broken in (
        text.replace("Who?", r"Who \ud83d?"),
        text.replace('"extra": {', r'"extra": {"a": ["\udc4d"],'),
    ):
        assert broken != text
        with pytest.raises(UserError, match=r"'q1'.*'.ud"):
            Record.from_json(broken)
    assert Record.from_json(text.replace("Who?", r"\ud83d\udc4d")).question == "👍"


def test_values_without_a_json_form_are_refused(make_record):
    for value in ({1, 2}, float("nan")):
        with pytest.raises(UserError, match="'q1'"):
            make_record(extra={"odd": value}).to_json()
