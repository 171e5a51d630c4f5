from __future__ import annotations

import pyarrow as pa
import pytest

from docagent_rl.errors import UserError
from docagent_rl.records.record import Split
from tests.records.importers.conftest import Files, Import, skipped

PAPER = "doc_name|q_uid|question|answer_1|answer_2|answer_3\n"
FETA = "doc_name|q_uid|question|answer|doc_url\n"


def test_papers_are_read_as_text(files: Files, run: Import) -> None:
    rows = '1912.01214|9a05|"Which ""pairs""\nare used?"|None| | \n1912.01214|9a06|Why?| | | \n'
    files.text("dataset/qa/paper_tab_qa.csv", PAPER + rows)
    evidence = [{"raw_evidence": ["Table 2"], "highlighted_evidence": []}]
    files.json(
        "dataset/extended_qa_info/paper_tab_qa.json",
        {"1912.01214": [{"question": "", "q_uid": "9a05", "answers": [], "evidence": evidence}]},
    )
    files.pdf("src_doc_files/paper_docs/1912.01214.pdf", 2)
    (record,), report = run("uda", store=True)
    assert (record.dataset, record.split, record.doc_id) == ("uda_paper_tab", Split.TEST, "1912.01214")
    assert record.question == 'Which "pairs"\nare used?'
    assert record.answers == ("None",)
    assert record.extra["gold"] == ["None", " ", " "]
    assert record.extra["evidence_text"] == evidence
    assert (record.answerable, record.evidence_pages, record.extra["num_pages"]) == (True, (), 2)
    assert skipped(report) == {"there is no reference answer": 1}


def test_a_record_broken_over_two_lines_is_one_row(files: Files, run: Import) -> None:
    name = "Ken (1955-58) [cut]"
    rows = f"{name}|8113|Who?|Ken|http://a\n{name}|8114|Where was\nhe?|Rome|http://b\n"
    rows += f"{name}|8115|When?|1958|http://c\n"
    files.text("dataset/qa/feta_qa.csv", FETA + rows)
    files.pdf(f"src_doc_files/wiki_feta_docs/pdfs/{name}.pdf", 1)
    records, report = run("uda", store=True)
    assert [record.question_id for record in records] == ["8113", "8114", "8115"]
    assert records[1].question == "Where was\nhe?"
    assert records[1].answers == ("Rome",)
    assert records[1].extra["doc_url"] == "http://b"
    assert records[0].doc_id == name
    assert dict(report.read) == {"uda_feta/test": 3}


def test_the_hub_s_files_and_one_of_several_sets(files: Files, run: Import) -> None:
    names = ("doc_name", "q_uid", "question", "answer_1", "answer_2", "answer_3")
    paper = dict(zip(names, ("1912.1", "a", "Why?", "yes", "it is", None), strict=True))
    schema = pa.schema([(name, pa.string()) for name in names])
    files.parquet("paper_text/test-00000-of-00001.parquet", [paper], schema)
    feta = {"doc_name": "x", "q_uid": 7, "question": "Who?", "answer": "me", "doc_url": "u"}
    files.parquet("feta/test-00000-of-00001.parquet", [feta])
    records, _ = run("uda")
    assert [(record.dataset, record.question_id) for record in records] == [
        ("uda_paper_text", "a"),
        ("uda_feta", "7"),
    ]
    assert records[0].answers == ("yes", "it is")
    records, report = run("uda", datasets=frozenset({"uda_feta"}))
    assert [record.dataset for record in records] == ["uda_feta"]
    assert report.rows_read == 1


def test_the_repository_s_sample_of_evidence_serves_where_the_full_one_is_not(
    files: Files, run: Import
) -> None:
    files.text("dataset/qa/feta_qa.csv", FETA + "Smallville|12844|Which season?|two|http://a\n")
    table = {"table_array": [["Season", "Rank"]]}
    files.json(
        "dataset/extended_qa_info_bench/bench_feta_qa.json",
        {"Smallville": [{"q_uid": 12844, "question": "Which season?", "answers": "two", "evidence": table}]},
    )
    (record,), _ = run("uda")
    assert record.extra["evidence_text"] == table


def test_a_set_that_is_not_there_is_one_clear_error(files: Files, run: Import) -> None:
    files.text("dataset/qa/feta_qa.csv", FETA + "a|1|Who?|me|u\n")
    with pytest.raises(UserError, match=r"--dataset feta.*uda_feta"):
        run("uda", datasets=frozenset({"feta"}))
