import dataclasses
import json

import pytest

from docagent_rl.commands.data import app
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.questions import read_questions
from tests.commands.conftest import called
from tests.lab.importers.conftest import Files
from tests.lab.importers.test_mmlongbench import mm_row as row

OPTIONS = ("--any-count", "--dpi", 36, "--workers", 1)


def data(*arguments, **expected):
    return " ".join(called(app, *arguments, **expected).output.split())


def imported(download, out, *more, status=0):
    """Import questions of MMLongBench-Doc."""
    told = data(
        "import", "mmlongbench_doc", download.root, "--out", out, *more, *OPTIONS, status=status
    )
    return told if status or "--part" in more else read_questions(out)


@pytest.fixture
def download(tmp_path) -> Files:
    """Return a download of five documents of three to fifteen pages, with a question on each; one
    document is missing.
    """
    files = Files(tmp_path / "download")
    rows = []
    for number in range(1, 6):
        files.pdf(f"data/documents/d{number}.pdf", 3 * number)
        asked = {
            "doc_id": f"d{number}.pdf",
            "question": f"What stands on page two of document {number}?",
        }
        rows.append(
            row(**asked, answer=f"d{number} page 2", answer_format="Str", evidence_pages="[2]")
        )
    files.json("data/samples.json", [*rows, row(doc_id="gone.pdf")])
    return files


def test_from_a_download_to_a_training_file(download, tmp_path):
    store, out = tmp_path / "store", tmp_path / "out" / "mmlb.jsonl"
    samples = imported(download, out, "--store", store)
    assert [sample.answers for sample in samples] == [
        (f"d{number} page 2",) for number in range(1, 6)
    ]
    report = json.loads((out.parent / "mmlb.report.json").read_text())
    assert report["rows"]["read"] == {"mmlongbench/test": 6}
    (skipped,) = report["rows"]["skipped"]
    assert (skipped["rows"], skipped["examples"]) == (1, ["samples.json:5"])
    assert report["documents"]["missing_ids"] == ["gone"]
    assert list(report["files"]) == ["data/samples.json"]
    parquet = tmp_path / "test.parquet"
    data("convert", out, "--store", store, "--out", parquet)
    data("validate", parquet, "--store", store)
    assert read_parquet(parquet) == samples


def test_other_files_of_questions_are_named_in_the_summary(download, tmp_path):
    told = ("import", "mmlongbench_doc", download.root, "--out")
    assert "not read" not in data(*told, tmp_path / "a.jsonl", *OPTIONS)
    download.json("data/question_types.json", [])
    assert "other files, not read │ 1 │ data/question_types.json" in data(
        *told, tmp_path / "b.jsonl", *OPTIONS
    )


def test_parts_for_sft_and_rl_share_no_question(download, tmp_path):
    imported(download, tmp_path / "mmlb.jsonl", "--part", "rl=2", "--part", "sft=rest")
    rl, sft = (tmp_path / f"mmlb-{name}.jsonl" for name in ("rl", "sft"))
    assert (len(read_questions(rl)), len(read_questions(sft))) == (2, 4)
    assert imported(download, tmp_path / "again.jsonl", "--exclude", rl) == read_questions(sft)


def test_leaks_are_listed_with_status_2(download, tmp_path):
    out, other = tmp_path / "mmlb.jsonl", tmp_path / "other.jsonl"
    asked = dataclasses.replace(
        imported(download, out)[0], question="On page two of document 1, what stands?"
    )
    other.write_text(asked.to_json() + "\n")
    told = data("leakage", out, other, status=2)
    assert "1 documents in both, 1 pairs" in told
    assert "│ d1 │ d1 │ id │" in told
