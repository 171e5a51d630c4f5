import hashlib
import json
import re
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.samples.questions import parse_question, read_questions, scan_questions
from docagent_rl.samples.sample import FIELDS, Sample
from docagent_rl.samples.validation import sample_problems, validate_file

ROW = {"doc_id": "report.pdf", "question": "How many?", "answers": ["41"], "evidence_pages": [3]}


def parsed(**changes: object) -> Sample:
    sample, problems = parse_question({**ROW, **changes})
    assert problems == []
    return sample


def problems_of(**changes: object) -> list[str]:
    row = {key: value for key, value in {**ROW, **changes}.items() if value is not ...}
    sample, problems = parse_question(row)
    assert sample is None
    return problems


def test_everything_else_is_derived():
    sample = parsed()
    assert (sample.doc_id, sample.split, sample.answer_format) == ("report", "train", "string")
    assert sample.answerable is True
    assert sample.extra == {
        "gold": ["41"],
        "num_pages": None,
        "native_id": sample.question_id,
        "row": 0,
    }
    assert sample_problems(sample) == []
    extra = parsed(extra={"difficulty": 3, "gold": 41}).extra
    assert (extra["difficulty"], extra["gold"]) == (3, 41)
    assert (
        parse_question({"doc_id": "a", "question": "What?", "answerable": False})[0].answers == ()
    )


@pytest.mark.parametrize(
    ("field", "given", "expected"),
    [
        ("doc_id", "./reports/2023/report.v2.PDF", "reports/2023/report.v2"),
        ("doc_id", r"reports\2023\report.pdf", "reports/2023/report"),
        ("doc_id", "/home/me/reports/report.pdf", "report"),
        ("doc_id", "../reports/report.pdf", "report"),
        ("doc_id", r"C:\reports\report.pdf", "report"),
        ("answers", "41", ("41",)),
        ("answers", [41, 0.5, "x"], ("41", "0.5", "x")),
        ("evidence_pages", "3", (3,)),
        ("evidence_pages", [5, 2.0, 5], (2, 5)),
        ("evidence_pages", None, ()),
        ("question_id", 17, "17"),
        ("evidence_sources", "Table", ("Table",)),
    ],
)
def test_forms_that_are_taken(field, given, expected):
    assert getattr(parsed(**{field: given}), field) == expected


def test_ids_follow_document_and_question_alone():
    first = parsed()
    assert first.question_id.startswith("q-")
    assert parsed(answers="42", evidence_pages=[4]).question_id == first.question_id
    assert parse_question(ROW, row=7)[0].question_id == first.question_id
    assert parsed(question="How  many?").question_id == first.question_id
    assert parsed(question="How much?").question_id != first.question_id
    assert parsed(doc_id="other.pdf").question_id != first.question_id


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        *(({"answers": value}, "'answers") for value in (..., [], [""], True)),
        ({"doc_id": ...}, "'doc_id'"),
        ({"question": 3}, "'question'"),
        ({"evidence_pages": ["iv"]}, "'iv'"),
        ({"evidence_pages": [True]}, "True"),
        ({"evidence_pages": [3, "iv"]}, "'iv'"),
        ({"doc_id": 7}, "found int 7"),
        ({"doc_id": "a\nb"}, "field 'doc_id'"),
        ({"question_id": "a\nb"}, "field 'question_id'"),
        ({"page": [3]}, "'page'"),
        ({"split": "dev"}, "'split'"),
    ],
)
def test_problems_name_the_field(changes, named):
    (problem,) = problems_of(**changes)
    assert named in problem


def test_all_problems_of_all_lines_are_found(tmp_path):
    path = tmp_path / "questions.jsonl"
    bad = [
        json.dumps({"question": 3, "answers": True}),
        json.dumps(ROW),
        "{",
        "[1]",
        "",
        json.dumps({**ROW, "question": "\ud800"}),
        json.dumps({**ROW, "extra": {"x": float("nan")}}),
        json.dumps({**ROW, "question": "Who?", "answers": "x", "evidence_pages": [0]}),
        '{"doc_id": ' + "1" * 5000 + "}",
        "[" * 100_000,
    ]
    path.write_text("\n".join(bad))
    report = validate_file(path)
    found = [problem.removeprefix(f"{path}:").partition(": ") for problem in report.problems]
    assert report.rows == 9
    assert [int(line) for line, _, _ in found] == [1, 1, 1, 3, 4, 6, 7, 9, 10, 8]
    fields = [re.search(rf"'({'|'.join(FIELDS)})\b", text).group(1) for _, _, text in found[:3]]
    assert fields == ["doc_id", "question", "answers"]
    assert repr(parsed(question="Who?").question_id) in found[-1][2]
    with pytest.raises(UserError, match=r"'answers\.0'") as error:
        read_questions(path)
    assert f"{path}:4" in str(error.value)


def test_a_key_that_stands_twice_is_named_and_so_is_a_line_without_end(tmp_path):
    path = tmp_path / "questions.jsonl"
    twice = json.dumps(ROW)[:-1] + ', "answers": "other"}'
    path.write_text(f"{twice}\n{json.dumps({**ROW, 'extra': {'x': 'y' * (5 << 20)}})}\n")
    first, second = validate_file(path).problems
    assert first.startswith(f"{path}:1: not valid JSON: the key 'answers' occurs twice")
    assert second.startswith(f"{path}:2: 5,24")
    assert "at most 4,194,304" in second


@pytest.mark.parametrize("end", ["csv", "TSV", "xlsx"])
def test_a_table_is_not_read_and_its_conversion_is_named(tmp_path, end):
    table = tmp_path / f"questions.{end}"
    table.write_text(
        'doc_id,question,answers,evidence_pages\nreport.pdf,"How many, in all?",1204,3\n'
    )
    with pytest.raises(UserError, match=rf"{end.lower()} files are not supported") as refused:
        read_questions(table)
    (command,) = re.findall(r"python -c '(.*)' < FILE", str(refused.value))
    with table.open() as given:
        lines = subprocess.run(
            [sys.executable, "-c", command], stdin=given, capture_output=True, check=True
        )
    (tmp_path / "questions.jsonl").write_bytes(lines.stdout)
    (sample,) = read_questions(tmp_path / "questions.jsonl")
    assert (sample.doc_id, sample.question) == ("report", "How many, in all?")
    assert (sample.answers, sample.evidence_pages) == (("1204",), (3,))


def test_files_of_editors(tmp_path):
    path = tmp_path / "questions.jsonl"
    text = json.dumps({**ROW, "question": "a\u2028b?"}, ensure_ascii=False)
    path.write_bytes(b"\xef\xbb\xbf" + f"{text}\r\n\r\n".encode())
    (sample,) = read_questions(path)
    assert sample.question == "a\u2028b?"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match=r"questions\.jsonl"):
        scan_questions(path)
    with pytest.raises(UserError, match=r"none\.jsonl"):
        scan_questions(tmp_path / "none.jsonl")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from([*FIELDS, "answer", "page", "x"]), json_values))
def test_any_object_is_a_sample_or_has_problems(row):
    sample, problems = parse_question(row)
    assert (sample is None) == bool(problems)
    if sample is not None:
        sample_problems(sample)
    with suppress(UserError):
        assert Sample.from_dict({**Sample.to_dict(parsed()), **row}).question.encode()


def test_ids_stay_from_release_to_release():
    """Samples of different days are compared by their ids."""
    row = {"doc_id": "bericht.pdf", "question": "Wie  groß ist die Fläche?", "answers": "1"}
    content = '["bericht", "Wie groß ist die Fläche?"]'
    expected = "q-" + hashlib.sha256(content.encode()).hexdigest()[:16]
    assert parse_question(row)[0].question_id == expected


def test_questions_are_numbered_by_their_lines_without_blank_ones(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = [json.dumps({**ROW, "question": text}) for text in ("Who?", "Where?")]
    path.write_text("\n".join([rows[0], "", "{", rows[1]]))
    found = [(place, sample.extra["row"]) for place, sample in scan_questions(path).samples]
    assert found == [(f"{path}:1", 0), (f"{path}:4", 2)]


def test_an_error_lists_so_many_problems(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("{\n" * 60)
    with pytest.raises(UserError) as caught:
        read_questions(path)
    assert len(str(caught.value).splitlines()) == 50
