"""An import from its rows to its report."""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.lab.importers.holdings import ImportSettings
from docagent_rl.lab.importers.importer import Importer, by_split
from docagent_rl.lab.importers.native import NativeRow, Skip
from docagent_rl.lab.importers.running import run_import
from docagent_rl.samples.sample import Split
from docagent_rl.samples.selection import Selection
from tests.lab.importers.test_corpora import row as corpus_row
from tests.lab.importers.test_mmlongbench import mm_row


class Two(Importer):
    """A benchmark of two splits, one of which should have two rows and the other five."""

    name = "two"
    dataset = "two"
    released = by_split("two", train=2, val=5)
    files = ("train.json val.json",)
    document, gold, id = "doc_id", "answer", "uid"


def asked(uid: int, **changes: object) -> dict[str, object]:
    return {"uid": uid, "doc_id": "d", "question": "What?", "answer": "41", **changes}


def test_one_split_may_be_imported_alone_if_it_is_whole(files):
    files.json("train.json", [asked(1), asked(2)])
    _, report = run_import(Two(), files.root, ImportSettings())
    assert (dict(report.read), dict(report.written)) == ({"two/train": 2}, {"two/train": 2})
    files.json("val.json", [asked(1)])
    with pytest.raises(UserError, match="two/val has 1 rows, but the released files have 5"):
        run_import(Two(), files.root, ImportSettings())
    _, report = run_import(Two(), files.root, ImportSettings(any_count=True))
    assert dict(report.written) == {"two/train": 2, "two/val": 1}


def test_files_beside_those_that_were_read_are_named(files):
    files.json("train.json", [asked(1), asked(2)])
    assert run_import(Two(), files.root, ImportSettings())[1].unread == []
    for name in ("dev.jsonl", "notes.txt", ".hidden.json", "deeper/test.json"):
        files.text(name, "")
    files.json("val.json", [asked(1)] * 5)
    _, report = run_import(Two(), files.root / "train.json", ImportSettings())
    assert report.unread == ["dev.jsonl", "val.json"]
    assert json.loads(report.to_json())["files_not_read"] == ["dev.jsonl", "val.json"]


def test_the_report_counts_documents(files, run):
    for name in ("a", "b"):
        files.pdf(f"documents/{name}.pdf", 3)
    files.text("documents/c.pdf", "no PDF")
    rows = [
        mm_row(doc_id=f"{name}.pdf", question=f"What of {name}?") for name in ("a", "c", "gone")
    ]
    files.json("samples.json", rows)
    (sample,), report = run("mmlongbench_doc", store=True)
    assert report.documents == {"wanted": 3, "found": 1, "missing": 1, "failed": 1}
    assert (report.missing, list(report.failed), sample.doc_id) == (["gone"], ["c"], "a")
    assert sorted(report.skipped.values()) == [["samples.json:1"], ["samples.json:2"]]
    assert list(report.files) == ["samples.json"]


def test_pdfs_of_one_name_that_differ_are_no_document(files, run):
    for name, pages in (("lease/a", 1), ("work/a", 2), ("lease/b", 1), ("work/b", 1)):
        files.pdf(f"vidoseek_pdf_document/{name}.pdf", pages)
    rows = [
        corpus_row(uid=name, meta_info={"file_name": f"{name}.pdf", "reference_page": [1]})
        for name in "ab"
    ]
    files.json("vidoseek.json", {"examples": rows})
    (sample,), report = run("vidoseek", store=True)
    assert (sample.doc_id, list(report.failed)) == ("b", ["a"])
    assert "lease/a.pdf" in report.failed["a"]
    assert "work/a.pdf have the same name but differ" in report.failed["a"]


def test_the_report_lists_the_first_two_hundred_documents_that_miss(files, run):
    files.json("samples.json", [mm_row(doc_id=f"{number:03d}.pdf") for number in range(203)])
    samples, report = run("mmlongbench_doc")
    assert (len(samples), report.documents["missing"]) == (203, 203)
    assert report.missing == [f"{number:03d}" for number in range(200)]


def test_the_report_lists_the_first_two_hundred_documents_that_cannot_be_read(files, run):
    for number in range(202):
        files.text(f"documents/{number:03d}.pdf", "no PDF")
    rows = [mm_row(doc_id=f"{number:03d}.pdf") for number in range(203)]
    files.json("samples.json", rows)
    _, report = run("mmlongbench_doc")
    assert report.documents["failed"] == 202
    assert list(report.failed) == [f"{number:03d}" for number in range(200)]


def test_a_corpus_counts_documents_that_nobody_asks_about(files, run):
    for name in ("a_b_02", "other"):
        files.pdf(f"pdf/{name}.pdf", 11)
    files.json("vidoseek.json", {"examples": [corpus_row()]})
    _, report = run("vidoseek")
    assert report.documents == {"wanted": 2, "found": 2, "missing": 0, "failed": 0}


def test_questions_about_documents_of_another_length_are_left_out(files, run):
    for name, pages in (("a", 3), ("b", 5)):
        files.pdf(f"documents/{name}.pdf", pages)
    files.json("samples.json", [mm_row(doc_id=f"{name}.pdf") for name in ("a", "b")])
    (sample,), report = run("mmlongbench_doc", selection=Selection(min_pages=4))
    assert (sample.doc_id, dict(report.skipped)) == (
        "b",
        {"not known to have 4 pages": ["samples.json:0"]},
    )


def test_excluded_questions_are_counted_by_their_unit(files, run):
    files.json("samples.json", [mm_row(question=f"What of {name}?") for name in "ab"])
    first, _ = run("mmlongbench_doc")
    kept, report = run("mmlongbench_doc", exclude=first[:1])
    assert kept == first[1:]
    assert dict(report.skipped) == {"its question is in an excluded set": ["samples.json:0"]}


def reasons_in(error: UserError) -> list[int]:
    """Return the rows of each reason in the message."""
    reasons = str(error).partition("became a sample (")[2].partition("); change")[0]
    return [int(part.rpartition(": ")[2]) for part in reasons.split("; ")]


def test_nothing_left_names_the_commonest_reasons_first(files, run):
    rows = [mm_row(doc_id=f"{number}/../x") for number in range(3)] + [mm_row(answer=" ")] * 4
    rows += [mm_row(question=" "), 7, 8]
    files.json("samples.json", rows)
    with pytest.raises(UserError, match=r"none of 10 rows became a sample") as caught:
        run("mmlongbench_doc")
    assert reasons_in(caught.value) == [4, 3, 2, 1]
    rows += [mm_row(doc_id=" ")] * 5 + [mm_row(answer_format=" ")] * 6
    files.json("samples.json", rows)
    with pytest.raises(UserError, match=r"none of 21 rows became a sample") as caught:
        run("mmlongbench_doc")
    assert reasons_in(caught.value) == [6, 5, 4, 3, 2]
    files.json("samples.json", [])
    with pytest.raises(UserError, match=r"none of 0 rows became a sample \(there are no rows\)"):
        run("mmlongbench_doc")


def test_the_report_is_a_file_for_people(files, run):
    rows = [
        mm_row(doc_id="Übersicht.pdf"),
        mm_row(question=" "),
        *[mm_row(doc_id=f"ä/{number}") for number in range(7)],
    ]
    files.json("samples.json", rows)
    _, report = run("mmlongbench_doc")
    text = report.to_json()
    assert text.startswith('{\n "importer": "mmlongbench_doc",\n "selection"')
    assert text.endswith("\n}\n")
    assert '"Übersicht"' in text
    content = json.loads(text)
    assert content["rows"]["read"] == {"mmlongbench/test": 9}
    assert content["rows"]["written"] == {"mmlongbench/test": 1}
    by_rows = {each["rows"]: each["examples"] for each in content["rows"]["skipped"]}
    assert by_rows == {
        1: ["samples.json:1"],
        7: [f"samples.json:{number}" for number in range(2, 7)],
    }


def test_reasons_are_written_as_they_are(files, run):
    files.json(
        "train.json",
        [asked(1), asked(2, answer={"a": 1}), asked(3, answer=" "), asked(4, answer=[])],
    )
    _, report = run_import(Two(), files.root, ImportSettings(any_count=True))
    assert dict(report.skipped) == {
        "field 'answer' is not a text, a number or a list of them": ["train.json:1"],
        "field 'answer' is blank": ["train.json:2", "train.json:3"],
    }


def test_a_row_without_a_split_is_skipped(tmp_path):
    with pytest.raises(Skip, match="names a split"):
        Two().draft(NativeRow(tmp_path / "rows.json", 0, asked(1), "two"))


def test_answers_in_several_columns_are_all_texts():
    importer = get_importer(Benchmark.UDA)
    row = {"doc_name": "a", "q_uid": "1", "question": "Who?", "answer_1": "me", "answer_2": 7}
    with pytest.raises(Skip, match="an answer is not a text"):
        importer.draft(NativeRow(None, 0, row, "uda_paper_tab", Split.TEST))
