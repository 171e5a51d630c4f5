from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from docagent_rl.commands.data import app
from docagent_rl.errors import UserError
from docagent_rl.records.importers import Benchmark
from docagent_rl.records.parquet import read_parquet
from docagent_rl.records.questions import read_questions
from tests.records.importers.conftest import Files
from tests.records.importers.test_dude import FILE
from tests.records.importers.test_dude import row as dude_row
from tests.records.importers.test_mmlongbench_doc import row


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


@pytest.fixture
def download(tmp_path: Path) -> Files:
    """Five documents of three to fifteen pages, a question on each of them, one without its document."""
    files = Files(tmp_path / "download")
    rows = []
    for number in range(1, 6):
        files.pdf(
            f"data/documents/d{number}.pdf", [f"answer {number}{page}" for page in range(1, 3 * number + 1)]
        )
        asked = {"doc_id": f"d{number}.pdf", "question": f"What stands on page two of document {number}?"}
        rows.append(row(**asked, answer=f"answer {number}2", answer_format="Str", evidence_pages="[2]"))
    rows.append(row(doc_id="gone.pdf"))
    files.json("data/samples.json", rows)
    return files


OPTIONS = ("--any-count", "--dpi", 36, "--workers", 1)


def test_the_page_base_is_an_option(download: Files, tmp_path: Path) -> None:
    out = tmp_path / "mmlb.jsonl"
    result = invoke("import", "mmlongbench_doc", download.root, "--out", out, "--page-base", 0, *OPTIONS)
    assert result.exit_code == 0, result.output
    assert sorted(record.evidence_pages for record in read_questions(out)) == [(2, 4)] + [(3,)] * 5
    assert "as --page-base says, documented is 1" in " ".join(result.output.split())
    result = invoke("import", "mmlongbench_doc", download.root, "--out", out, "--page-base", 2, *OPTIONS)
    assert result.exit_code == 2


def test_from_a_download_to_a_training_file(download: Files, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out" / "mmlb.jsonl"
    result = invoke("import", "mmlongbench_doc", download.root, "--store", store, "--out", out, *OPTIONS)
    assert result.exit_code == 0, result.output
    assert f"{out}: 5 records" in result.output.replace("\n", "")
    assert "skipped: its document is missing" in result.output
    assert "pages count from 1 (as documented)" in result.output
    assert "5 of 5" in result.output
    report = json.loads((out.parent / "mmlb.report.json").read_text())
    assert report["rows"]["read"] == {"mmlongbench/test": 6}
    assert report["rows"]["skipped"] == [
        {"reason": "its document is missing", "rows": 1, "examples": ["samples.json:5"]}
    ]
    assert report["documents"]["missing_ids"] == ["gone"]
    assert report["answers_on_pages"] == {"sampled": 5, "cited": 5, "before": 0, "after": 0}
    assert list(report["files"]) == ["data/samples.json"]
    assert report["gold_as_prediction"] == {"checked": 5, "right": 5, "exceptions": []}

    parquet = tmp_path / "test.parquet"
    assert invoke("convert", out, "--store", store, "--out", parquet).exit_code == 0
    assert invoke("validate", parquet, "--store", store).exit_code == 0
    assert read_parquet(parquet) == read_questions(out)


@pytest.mark.slow
def test_the_trainer_s_data_set_reads_it_and_a_system_plays_it(download: Files, tmp_path: Path) -> None:
    from omegaconf import OmegaConf
    from verl.utils.dataset.rl_dataset import RLHFDataset

    out, store = tmp_path / "mmlb.parquet", tmp_path / "store"
    done = invoke("import", "mmlongbench_doc", download.root, "--store", store, "--out", out, *OPTIONS)
    assert done.exit_code == 0, done.output
    result = invoke("validate", out, "--store", store, "--recipe", "mm_doc_r1_qwen3_8b")
    assert result.exit_code == 0, result.output
    config = OmegaConf.create({"cache_dir": str(tmp_path / "cache"), "filter_overlong_prompts": False})
    rows = RLHFDataset([str(out)], tokenizer=None, config=config)
    records = read_parquet(out)
    assert [rows[index]["record"] for index in range(5)] == [record.to_json() for record in records]
    assert [rows[index]["reward_model"]["ground_truth"] for index in range(2)] == [
        ["answer 12"],
        ["answer 22"],
    ]
    assert rows[0]["data_source"] == "mmlongbench"


def test_the_same_command_again_changes_nothing(download: Files, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "mmlb.jsonl"
    arguments = ("import", "mmlongbench_doc", download.root, "--store", store, "--out", out, *OPTIONS)
    assert invoke(*arguments).exit_code == 0
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("mmlb*")}
    assert len(written) == 2
    assert invoke(*arguments).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("mmlb*")} == written
    other = invoke(*arguments, "--min-pages", 9)
    assert isinstance(other.exception, UserError)
    assert "--force" in str(other.exception)
    assert invoke(*arguments, "--min-pages", 9, "--force").exit_code == 0
    assert [record.doc_id for record in read_questions(out)] == ["d3", "d4", "d5"]


def test_parts_for_sft_and_rl_share_no_question(download: Files, tmp_path: Path) -> None:
    out = tmp_path / "mmlb.jsonl"
    arguments = (
        "import",
        "mmlongbench_doc",
        download.root,
        "--out",
        out,
        "--part",
        "rl=2",
        "--part",
        "sft=rest",
    )
    result = invoke(*arguments, *OPTIONS)
    assert result.exit_code == 0, result.output
    rl, sft = (tmp_path / f"mmlb-{name}.jsonl" for name in ("rl", "sft"))
    assert (len(read_questions(rl)), len(read_questions(sft))) == (2, 4)
    assert invoke("leakage", rl, sft).exit_code == 0
    again = tmp_path / "again.jsonl"
    done = invoke("import", "mmlongbench_doc", download.root, "--out", again, "--exclude", rl, *OPTIONS)
    assert done.exit_code == 0, done.output
    assert read_questions(again) == read_questions(sft)


def test_leaks_are_listed_with_status_2(download: Files, tmp_path: Path) -> None:
    out = tmp_path / "mmlb.jsonl"
    invoke("import", "mmlongbench_doc", download.root, "--out", out, *OPTIONS)
    lines = out.read_text().splitlines()
    changed = json.loads(lines[0]) | {"question": "On page two of document 1, what stands?"}
    (tmp_path / "other.jsonl").write_text(json.dumps(changed) + "\n")
    result = invoke("leakage", out, tmp_path / "other.jsonl", "--out", tmp_path / "leaks.json")
    assert result.exit_code == 2
    assert "1 documents in both, 1 pairs of questions that give each other away" in result.output
    found = json.loads((tmp_path / "leaks.json").read_text())
    assert found["documents"] == [{"first": "d1", "second": "d1", "how": "id", "share": 1.0}]
    assert found["questions"][0]["same_document"] is True

    changed["question"] = "Who wrote it?"
    (tmp_path / "other.jsonl").write_text(json.dumps(changed) + "\n")
    assert invoke("leakage", out, tmp_path / "other.jsonl").exit_code == 2
    assert invoke("leakage", out, tmp_path / "other.jsonl", "--by", "question").exit_code == 0


def test_an_empty_set_is_not_called_clean(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    result = invoke("leakage", tmp_path / "a.jsonl", tmp_path / "a.jsonl")
    assert isinstance(result.exception, UserError)
    assert "holds no record" in str(result.exception)


def test_doc_v_star_s_choice_of_dude(tmp_path: Path) -> None:
    files = Files(tmp_path / "dude")
    rows = []
    for number, pages in enumerate((10, 11)):
        files.pdf(f"PDF/train/d{number}.pdf", pages)
        rows += [
            dude_row(questionId=f"{number}{split}", docId=f"d{number}", data_split=split)
            for split in ("train", "val")
        ]
    files.json(FILE, {"data": rows})
    out = tmp_path / "sft.jsonl"
    result = invoke("import", "dude", files.root, "--out", out, "--paper", "doc_v_star", *OPTIONS)
    assert result.exit_code == 0, result.output
    assert [record.question_id for record in read_questions(out)] == ["1train"]
    assert "skipped: fewer than 11 pages" in result.output


@pytest.mark.parametrize(
    "options", [["--part", "a"], ["--part", "a=0"], ["--part", "a=rest", "--part", "b=rest"]]
)
def test_parts_that_mean_nothing_are_refused(download: Files, options: list[str]) -> None:
    result = invoke("import", "mmlongbench_doc", download.root, *options)
    assert isinstance(result.exception, UserError)
    assert "--part" in str(result.exception)


def test_every_benchmark_stands_in_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    for benchmark in Benchmark:
        assert f"docagent-rl data import {benchmark.value} " in text


@pytest.mark.parametrize("command", ["import", "leakage"])
def test_every_command_shows_an_example(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Example: docagent-rl data {command}" in " ".join(result.output.split())


@pytest.mark.slow
def test_a_killed_import_goes_on_and_ends_the_same(download: Files, tmp_path: Path) -> None:
    for number in range(6, 12):
        download.pdf(f"data/documents/d{number}.pdf", 40)
    rows = json.loads((download.root / "data/samples.json").read_text())
    rows += [row(doc_id=f"d{number}.pdf") for number in range(6, 12)]
    download.json("data/samples.json", rows)

    def arguments(name: str) -> list[str]:
        store, out = tmp_path / f"{name}.store", tmp_path / name / "out.jsonl"
        options = [str(option) for option in OPTIONS]
        return [
            "import",
            "mmlongbench_doc",
            str(download.root),
            "--store",
            str(store),
            "--out",
            str(out),
            *options,
        ]

    assert invoke(*arguments("whole")).exit_code == 0
    command = [sys.executable, "-m", "docagent_rl.cli", "data", *arguments("killed")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    store = tmp_path / "killed.store"
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        if sum(1 for _ in store.rglob("*.jpg")) + sum(1 for _ in store.rglob("*.json")) > 20:
            break
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed").exists()
    assert invoke(*arguments("killed")).exit_code == 0
    for name in ("out.jsonl", "out.report.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list(tmp_path.glob(".*.import*"))
