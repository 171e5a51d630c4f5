"""Damaged or malicious downloads cause one clear error, or a counted row."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.ingestion import ingest
from tests.lab.importers.conftest import Files, numbers, rows_of
from tests.lab.importers.test_mmlongbench import mm_row
from tests.lab.importers.test_pdf_sets import DUDE_FILE, URL_FILE, url_row

QUESTIONS = {
    "mmlongbench_doc": "data/samples.json",
    "longdocurl": URL_FILE,
    "slidevqa": "annotations/qa/train.jsonl",
    "mp_docvqa": "val.json",
    "dude": DUDE_FILE,
    "vidoseek": "vidoseek.json",
    "uda": "dataset/qa/feta_qa.csv",
    "vrag_rl": "rag_dataset.json",
    "unidoc_rl": "train.parquet",
    "alden": "dude/train.parquet",
}
PARQUET = {
    **dict.fromkeys(
        ["mmlongbench_doc", "slidevqa", "mp_docvqa", "vrag_rl", "unidoc_rl"], "data/train-0.parquet"
    ),
    "uda": "feta/test-0.parquet",
    "alden": "dude/train.parquet",
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_file_of_something_else_is_one_clear_error(files, run, name):
    files.root.mkdir()
    with pytest.raises(UserError, match=str(files.root)):
        run(name)
    path = files.text(QUESTIONS[name], "<html>404</html>")
    with pytest.raises(UserError, match=str(files.root)) as caught:
        run(name)
    assert "\n" not in str(caught.value)
    path.write_bytes(b"[\xff\xfe\n" * 3)
    with pytest.raises(
        UserError, match=path.name if path.suffix != ".parquet" else str(files.root)
    ):
        run(name)


@pytest.mark.parametrize("name", PARQUET)
def test_a_cut_parquet_file_is_one_clear_error(files, run, name):
    path = files.parquet(PARQUET[name], [mm_row(), mm_row(), mm_row()])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserError, match=path.name):
        run(name)


def test_no_folder_and_another_number_of_rows_are_refused(files, run):
    with pytest.raises(UserError, match=files.root.name):
        run("mmlongbench_doc")
    files.json("data/samples.json", [mm_row()])
    with pytest.raises(UserError, match=r"mmlongbench/test.*\b1\b.*1082"):
        run("mmlongbench_doc", any_count=False)


def test_rows_of_wrong_types_are_counted(files, run):
    odd = [None, 7, "text", [1], {"doc_id": {"a": 1}}, {"question": 5}]
    files.json("data/samples.json", [*odd, mm_row()])
    samples, report = run("mmlongbench_doc")
    assert [sample.extra["row"] for sample in samples] == [len(odd)]
    assert sum(map(len, report.skipped.values())) == len(odd)
    path = files.jsonl(URL_FILE, [url_row()])
    path.write_text(path.read_text() + '{"cut": \n\n[1, 2]\n')
    samples, report = run("longdocurl")
    assert len(samples) == 1
    assert numbers(report.skipped) == [[1, 2]]


IDS = [
    "../../etc/passwd", "/etc/passwd.pdf", "a\\b", "..", ".hidden", "a\0b", "x" * 300, ".pdf",
    "a\n",
    "a.pdf.pdf",
]  # fmt: skip


def test_ids_that_leave_the_folder_are_counted(files, run, tmp_path):
    files.pdf("data/documents/annual_report.v2.pdf", 3)
    files.json("data/samples.json", [*(mm_row(doc_id=doc_id) for doc_id in IDS), mm_row()])
    samples, report = run("mmlongbench_doc", store=True)
    assert [sample.doc_id for sample in samples] == ["annual_report.v2"]
    assert list(rows_of(report.skipped)) == ["doc_id"]
    assert sum(map(len, report.skipped.values())) == len(IDS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["download", "store"]


def test_links_out_of_the_download_are_not_read(files, run, tmp_path):
    secret = Files(tmp_path / "elsewhere").pdf("secret.pdf", 3)
    (files.root / "data" / "documents").mkdir(parents=True)
    (files.root / "data" / "documents" / "annual_report.v2.pdf").symlink_to(secret)
    questions = files.json("data/samples.json", [mm_row()])
    with pytest.raises(UserError, match="a link out"):
        run("mmlongbench_doc", store=True)
    questions.rename(tmp_path / "samples.json")
    questions.symlink_to(tmp_path / "samples.json")
    with pytest.raises(UserError, match=r"samples\.json: a link"):
        run("mmlongbench_doc")


def test_huge_fields_are_counted(files, run):
    pages = [
        "[" + "1, " * 100_000 + "1]",
        "[" * 5000,
        f"[{'9' * 5000}]",
        "[1e999, NaN]",
        "__import__('os').system('true')",
    ]
    rows = [mm_row(question="x" * 200_000), *(mm_row(evidence_pages=text) for text in pages)]
    files.json("data/samples.json", [*rows, mm_row(question="half \ud800 character")])
    samples, report = run("mmlongbench_doc")
    assert [sample.extra["row"] for sample in samples] == [1, 2, 3, 4, 5]
    assert all(sample.evidence_pages == () for sample in samples)
    assert all("evidence_pages" in sample.extra["parse_error"] for sample in samples)
    assert numbers(report.skipped) == [[0], [6]]


def test_a_document_of_the_store_serves_unless_the_download_has_another(files, run, tmp_path):
    other = Files(tmp_path / "other")
    other.pdf("annual_report.v2.pdf", 3)
    ingest(other.root, tmp_path / "store", workers=1)
    files.json("data/samples.json", [mm_row()])
    (sample,), report = run("mmlongbench_doc", store=True)
    assert (sample.extra["num_pages"], report.documents["missing"]) == (3, 0)
    files.pdf("data/documents/annual_report.v2.pdf", 2)
    with pytest.raises(UserError, match=files.root.name):
        run("mmlongbench_doc", store=True)
