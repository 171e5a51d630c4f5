from __future__ import annotations

import pyarrow as pa

from docagent_rl.samples.sample import Split
from tests.samples.importers.conftest import numbers

PAPER = "doc_name|q_uid|question|answer_1|answer_2|answer_3\n"
FETA = "doc_name|q_uid|question|answer|doc_url\n"


def test_papers_are_read_as_text(files, run):
    rows = '1912.01214|9a05|"Which ""pairs""\nare used?"|None| | \n1912.01214|9a06|Why?| | | \n'
    files.text("dataset/qa/paper_tab_qa.csv", PAPER + rows)
    files.pdf("src_doc_files/paper_docs/1912.01214.pdf", 2)
    (sample,), report = run("uda", store=True)
    assert (sample.dataset, sample.split, sample.doc_id) == ("uda_paper_tab", Split.TEST, "1912.01214")
    assert (sample.question, sample.answers) == ('Which "pairs"\nare used?', ("None",))
    assert sample.extra["gold"] == ["None", " ", " "]
    assert (sample.answerable, sample.evidence_pages, sample.extra["num_pages"]) == (True, (), 2)
    assert list(map(len, numbers(report.skipped))) == [1]


def test_a_sample_broken_over_two_lines_is_one_row(files, run):
    name = "Ken (1955-58) [cut]"
    rows = f"{name}|8113|Who?|Ken|http://a\n{name}|8114|Where was\nhe?|Rome|http://b\n"
    files.text("dataset/qa/feta_qa.csv", FETA + rows + f"{name}|8115|When?|1958|http://c\n")
    files.pdf(f"src_doc_files/wiki_feta_docs/pdfs/{name}.pdf", 1)
    samples, report = run("uda", store=True)
    assert [sample.question_id for sample in samples] == ["8113", "8114", "8115"]
    middle = samples[1]
    assert (middle.doc_id, middle.question, middle.answers) == (name, "Where was\nhe?", ("Rome",))
    assert middle.extra["doc_url"] == "http://b"
    assert dict(report.read) == {"uda_feta/test": 3}


def test_the_hub_s_files_and_one_of_them(files, run):
    names = ("doc_name", "q_uid", "question", "answer_1", "answer_2", "answer_3")
    paper = dict(zip(names, ("1912.1", "a", "Why?", "yes", "it is", None), strict=True))
    schema = pa.schema([(name, pa.string()) for name in names])
    files.parquet("paper_text/test-00000-of-00001.parquet", [paper], schema)
    feta = {"doc_name": "x", "q_uid": 7, "question": "Who?", "answer": "me", "doc_url": "u"}
    files.parquet("feta/test-00000-of-00001.parquet", [feta])
    (first, second), _ = run("uda")
    assert (first.dataset, first.question_id, first.answers) == ("uda_paper_text", "a", ("yes", "it is"))
    assert (second.dataset, second.question_id) == ("uda_feta", "7")
    files.root = files.root / "feta" / "test-00000-of-00001.parquet"
    assert run("uda")[0] == [second]
