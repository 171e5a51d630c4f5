"""Downloads that are damaged or malicious: one clear error, or a counted row."""

from __future__ import annotations

from pathlib import Path

import pytest

from docagent_rl.errors import UserError
from tests.records.importers.conftest import Files, Import, skipped
from tests.records.importers.test_mmlongbench_doc import row

QUESTIONS = {
    "mmlongbench_doc": "data/samples.json",
    "longdocurl": "LongDocURL_public.jsonl",
    "slidevqa": "annotations/qa/train.jsonl",
    "mp_docvqa": "val.json",
    "dude": "2023-03-23_DUDE_gt_test_PUBLIC.json",
    "vidoseek": "vidoseek.json",
    "uda": "dataset/qa/feta_qa.csv",
    "vrag_rl": "rag_dataset.json",
    "unidoc_rl": "train.parquet",
    "alden": "dude/train.parquet",
}
PARQUET = ["mmlongbench_doc", "slidevqa", "mp_docvqa", "uda", "vrag_rl", "unidoc_rl", "alden"]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_file_of_something_else_is_one_clear_error(files: Files, run: Import, name: str) -> None:
    files.text(QUESTIONS[name], "<html>404</html>")
    with pytest.raises(UserError) as caught:
        run(name)
    told = str(caught.value)
    assert str(files.root) in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "name", [name for name in QUESTIONS if QUESTIONS[name].endswith(("json", "jsonl", "csv"))]
)
def test_bytes_that_are_no_text_are_one_clear_error(files: Files, run: Import, name: str) -> None:
    files.text(QUESTIONS[name], "").write_bytes(b"[\xff\xfe\n" * 3)
    with pytest.raises(UserError, match=Path(QUESTIONS[name]).name):
        run(name)


@pytest.mark.parametrize("name", PARQUET)
def test_a_cut_parquet_file_is_one_clear_error(files: Files, run: Import, name: str) -> None:
    place = {"uda": "feta/test-0.parquet", "alden": "dude/train.parquet"}.get(name, "data/train-0.parquet")
    path = files.parquet(place, [row(), row(), row()])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match=path.name):
        run(name)


def test_no_folder_is_one_clear_error(files: Files, run: Import) -> None:
    with pytest.raises(UserError, match=files.root.name):
        run("mmlongbench_doc")


def test_rows_of_wrong_types_are_counted(files: Files, run: Import) -> None:
    odd = [None, 7, "text", [1], {"doc_id": {"a": 1}}, {"question": 5}]
    files.json("data/samples.json", [*odd, row()])
    records, report = run("mmlongbench_doc")
    assert len(records) == 1
    assert report.rows_skipped == len(odd)


IDS = [
    "../../etc/passwd",
    "/etc/passwd.pdf",
    "a\\b",
    "..",
    ".hidden",
    "a\0b",
    "x" * 300,
    ".pdf",
    "a\n",
    "a.pdf.pdf",
]


def test_ids_that_leave_the_folder_are_counted(files: Files, run: Import, tmp_path: Path) -> None:
    files.pdf("data/documents/annual_report.v2.pdf", 3)
    files.json("data/samples.json", [*(row(doc_id=doc_id) for doc_id in IDS), row()])
    records, report = run("mmlongbench_doc", store=True)
    assert [record.doc_id for record in records] == ["annual_report.v2"]
    ((reason, count),) = skipped(report).items()
    assert "'doc_id'" in reason
    assert count == len(IDS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["download", "store"]


def test_huge_fields_are_counted(files: Files, run: Import) -> None:
    deep = "[" * 5000
    rows = [
        row(question="x" * 200_000),
        row(evidence_pages="[" + "1, " * 100_000 + "1]"),
        row(evidence_pages=deep),
        row(evidence_pages=f"[{'9' * 5000}]"),
        row(evidence_pages="[1e999, NaN]"),
        row(evidence_pages="__import__('os').system('true')"),
        row(question="half \ud800 character"),
    ]
    files.json("data/samples.json", rows)
    records, report = run("mmlongbench_doc")
    assert [record.extra["row"] for record in records] == [1, 2, 3, 4, 5]
    assert all(record.evidence_pages == () for record in records)
    assert all("evidence_pages" in record.extra["parse_error"] for record in records)
    assert sorted(skipped(report).values()) == [1, 1]


def test_a_deep_file_is_one_clear_error(files: Files, run: Import) -> None:
    files.text("data/samples.json", "[" * 200_000)
    with pytest.raises(UserError, match=r"samples\.json"):
        run("mmlongbench_doc")


def test_a_csv_field_without_end_is_one_clear_error(files: Files, run: Import) -> None:
    header = "doc_name|q_uid|question|answer|doc_url\n"
    files.text("dataset/qa/feta_qa.csv", header + 'a|1|"' + "x" * 300_000)
    with pytest.raises(UserError, match=r"feta_qa\.csv"):
        run("uda")


def test_bad_lines_of_jsonl_are_counted(files: Files, run: Import) -> None:
    from tests.records.importers.test_longdocurl import FILE
    from tests.records.importers.test_longdocurl import row as line

    path = files.jsonl(FILE, [line()])
    path.write_text(path.read_text() + '{"cut": \n\n[1, 2]\n')
    records, report = run("longdocurl")
    assert len(records) == 1
    assert list(skipped(report).values()) == [2]


def test_another_document_of_the_same_id_is_not_mixed_up(files: Files, run: Import, tmp_path: Path) -> None:
    from docagent_rl.documents.ingestion import ingest

    other = Files(tmp_path / "other")
    other.pdf("annual_report.v2.pdf", 9)
    ingest(other.root, tmp_path / "store", workers=1)
    files.pdf("data/documents/annual_report.v2.pdf", 3)
    files.json("data/samples.json", [row()])
    with pytest.raises(UserError, match=files.root.name):
        run("mmlongbench_doc", store=True)


def test_documents_may_be_in_the_store_alone(files: Files, run: Import, tmp_path: Path) -> None:
    from docagent_rl.documents.ingestion import ingest

    other = Files(tmp_path / "other")
    other.pdf("annual_report.v2.pdf", 3)
    ingest(other.root, tmp_path / "store", workers=1)
    files.json("data/samples.json", [row()])
    (record,), report = run("mmlongbench_doc", store=True)
    assert record.extra["num_pages"] == 3
    assert report.documents["missing"] == 0
