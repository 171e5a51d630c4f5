from __future__ import annotations

import shutil

import pytest
import typer
from reportlab.pdfgen.canvas import Canvas
from typer.testing import CliRunner

from docagent_rl.commands.check import check_command
from docagent_rl.documents import DocumentStore, PageRef, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.training.trainer.archive import write_metrics, write_trajectories
from tests.checkpoints.saved import cut, flip, save

_FAST = RenderSettings(dpi=10)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("check")
    (root / "inbox").mkdir()
    for name, texts in {"report": ["alpha", "beta", "beta"], "other": ["gamma"]}.items():
        canvas = Canvas(str(root / "inbox" / f"{name}.pdf"), pagesize=(200, 100), invariant=True)
        for text in texts:
            canvas.drawString(10, 50, text)
            canvas.showPage()
        canvas.save()
    ingest(root / "inbox", root / "store", settings=_FAST, workers=1)
    BM25Retriever.build(DocumentStore(root / "store")).save(root / "index")
    return root


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def check(*paths):
    app = typer.Typer()
    app.command("check")(check_command)
    return CliRunner().invoke(app, [str(path) for path in paths], env={"COLUMNS": "200"})


def test_whole_folders_have_status_0(folder):
    result = check(folder / "store", folder / "index")
    assert result.exit_code == 0
    assert "2 documents, 4 pages, 9 objects; all whole" in result.output
    assert "an index of 4 pages; all whole" in result.output


def test_every_damaged_object_is_listed_with_its_pages(folder):
    store = DocumentStore(folder / "store")
    pages = [store.page(PageRef("report", n)) for n in (1, 2)]
    picture = store.objects.root / pages[0].image_hash[:2] / f"{pages[0].image_hash}.jpg"
    text = store.objects.root / pages[1].text_hash[:2] / f"{pages[1].text_hash}.txt.gz"
    picture.write_bytes(pages[1].image_bytes())
    text.unlink()
    result = check(folder / "store")
    assert result.exit_code == 1
    lines = {line.partition(" [")[0]: line for line in result.output.splitlines() if " [" in line}
    assert len(lines) == 2
    assert any(str(picture) in line and "[report#1 (picture)]" in line for line in lines.values())
    assert any(str(text) in line and "report#2 (text), report#3 (text)" in line for line in lines.values())
    assert "2 damaged" in result.output
    # the advice is good
    picture.unlink()
    ingest(folder / "inbox", folder / "store", settings=_FAST, workers=1)
    assert check(folder / "store").exit_code == 0
    assert DocumentStore(folder / "store").page(PageRef("report", 2)).text() == "beta"


def test_a_damaged_manifest_is_listed(folder):
    path = StoreLayout(folder / "store").manifest("report")
    path.write_bytes(path.read_bytes().replace(b"report.pdf", b"deport.pdf"))
    result = check(folder / "store")
    assert result.exit_code == 1
    assert f"{path}: damaged" in result.output
    assert "1 documents, 1 pages" in result.output


def test_all_damaged_files_of_an_index_are_listed(folder):
    (arrays,) = (folder / "index").glob("files-*")
    for name in ("data.csc.index.npy", "vocab.index.json"):
        content = bytearray((arrays / name).read_bytes())
        content[-2] ^= 1
        (arrays / name).write_bytes(content)
    result = check(folder / "index", folder / "store")
    assert result.exit_code == 1
    assert "2 damaged" in result.output
    for name in ("data.csc.index.npy", "vocab.index.json"):
        assert f"{arrays / name}: its checksum is that of other bytes" in result.output
    header = folder / "index" / "docagent_index.json"
    header.write_bytes(header.read_bytes()[:-20])
    assert f"{header}: damaged" in check(folder / "index").output


def test_what_has_no_checksum_is_said(folder, made):
    path = StoreLayout(folder / "store").manifest("other")
    kept = [line for line in path.read_text().splitlines() if not line.startswith('"checksum"')]
    path.write_text("\n".join(kept).replace("],\n}", "]\n}"))
    result = check(folder / "store")
    assert result.exit_code == 0
    assert "1 of its files are of an earlier version and have no checksum" in result.output


@pytest.fixture
def run(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path / "run" / "checkpoints", step)
        write_trajectories(tmp_path / "run", step, [])
        write_metrics(tmp_path / "run", step, {})
    return tmp_path / "run"


def test_a_whole_run_has_status_0(run):
    for path in (run, run / "checkpoints"):
        result = check(path)
        assert result.exit_code == 0
        assert "3 checkpoints; all whole" in result.output
    assert "1 checkpoint; all whole" in check(run / "checkpoints" / "global_step_2").output


def test_damage_of_a_run_is_listed(run):
    flip(run / "checkpoints" / "global_step_2" / "data.pt")
    (run / "checkpoints" / "global_step_1" / "manifest.json").unlink()
    cut(run / "checkpoints" / "global_step_1" / "data.pt")
    (run / "checkpoints" / "latest_checkpointed_iteration.txt").write_bytes(b"")
    (run / "metrics" / "2.json").unlink()
    result = check(run)
    assert result.exit_code == 1
    for line in (
        "global_step_2: data.pt: its checksum is that of other bytes",
        "global_step_1: not finished, or retired: data.pt: was cut off",
        "latest_checkpointed_iteration.txt is empty",
        "2.json: is missing: step 2 has been trained",
        "3 checkpoints; 4 damaged",
    ):
        assert line in result.output


def test_checkpoints_without_a_manifest_are_said(tmp_path):
    result = check(save(tmp_path, 1, check=None))
    assert result.exit_code == 0
    assert "1 of its files are of an earlier version and have no checksum" in result.output


def test_another_folder_is_refused(tmp_path):
    result = check(tmp_path)
    assert isinstance(result.exception, UserError)
    assert "neither a document store" in str(result.exception)


def test_help_has_an_example():
    assert "Example: docagent-rl check" in " ".join(check("--help").output.split())
