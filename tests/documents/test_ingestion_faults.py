"""Folders, disks and other processes that get in the way of an ingest."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from PIL import Image

from docagent_rl.documents import DocumentStore, ingestion
from docagent_rl.documents.chunks import PAGES_PER_CHUNK
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.documents.sources import discover
from docagent_rl.errors import UserError
from tests.documents.here import ingest_here

SCRIPT = """
import sys
from pathlib import Path
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest

if __name__ == "__main__":
    report = ingest(Path(sys.argv[1]), Path(sys.argv[2]), settings=RenderSettings(dpi=20), workers=2)
    print(len(report.ingested), len(report.skipped), len(report.failed))
"""


@pytest.fixture
def start(tmp_path, inbox, store_path):
    """Starts an ingest in a process of its own."""
    (tmp_path / "run.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "run.py"), str(inbox), str(store_path)]
    return lambda: subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def outside():
    """A folder for a user whom the file system refuses things (the administrator is refused nothing)."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o777)
    administrator = os.geteuid() == 0
    if administrator:
        os.seteuid(65534)
    yield root
    if administrator:
        os.seteuid(0)
    for folder in (root, *root.rglob("*")):
        if folder.is_dir():
            folder.chmod(0o755)
    shutil.rmtree(root)


def test_folders_that_cannot_be_read_are_reported(outside, write_pdf):
    shut = outside / "in" / "a" / "shut"
    write_pdf(outside / "in" / "good.pdf", ["x"])
    write_pdf(shut / "hidden.pdf", ["x"])
    shut.chmod(0)
    found = discover(outside / "in")
    assert [document.doc_id for document in found.documents] == ["good"]
    assert [failure.name for failure in found.failed] == ["a/shut"]
    for path in (shut, shut / "hidden.pdf"):
        with pytest.raises(UserError, match=f"{path}.*Permission denied"):
            discover(path)


def test_a_store_that_cannot_be_written_is_one_error(outside, write_pdf):
    write_pdf(outside / "in" / "a.pdf", ["x"])
    ingest_here(outside / "in", outside / "store")
    folders = [path for path in (outside / "store", *(outside / "store").rglob("*")) if path.is_dir()]
    for folder in (outside / "in", *folders):
        folder.chmod(0o555)
    with pytest.raises(UserError, match=r"in/store.*Permission denied"):
        ingest_here(outside / "in", outside / "in" / "store")
    # nothing to write: no error
    assert ingest_here(outside / "in", outside / "store").skipped == ["a"]
    (outside / "in").chmod(0o755)
    write_pdf(outside / "in" / "b.pdf", ["y"])
    with pytest.raises(UserError, match=r"store.*Permission denied"):
        ingest_here(outside / "in", outside / "store")
    (outside / "in").chmod(0)
    with pytest.raises(UserError, match=r"Permission denied"):
        StoreLayout(outside / "in" / "store").create()


@pytest.mark.parametrize("part", ["objects", "documents", "partial"])
def test_a_file_in_place_of_a_folder_is_one_error(inbox, store_path, ingested, write_pdf, part):
    write_pdf(inbox / "a.pdf", ["x"])
    StoreLayout(store_path).create()
    (store_path / part).touch()
    with pytest.raises(UserError, match="store"):
        ingested()


@pytest.mark.parametrize(
    "ingest", [pytest.param(ingest, marks=pytest.mark.slow), ingest_here], ids=["processes", "here"]
)
def test_a_full_disk_is_one_error_and_the_next_run_goes_on(inbox, store_path, write_image, ingest):
    """A limit of the size of files stands in for the disk: both end a write half-way."""
    write_image(inbox / "small" / "1.png")
    (inbox / "large").mkdir()
    Image.effect_noise((400, 400), 80).save(inbox / "large" / "1.png")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(UserError, match=r"\.jpg \(File too large\)"):
            ingest(inbox, store_path, workers=2, ocr=OcrSettings(OcrMode.NEVER))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    report = ingest(inbox, store_path, workers=2, ocr=OcrSettings(OcrMode.NEVER))
    assert sorted(report.ingested + report.skipped) == ["large", "small"]
    assert not list(store_path.rglob("*.tmp"))


@pytest.mark.slow
def test_a_killed_ingest_of_hundreds_of_pages_goes_on(inbox, store_path, ingested, write_pdf, start):
    write_pdf(inbox / "long.pdf", [f"page number {n}" for n in range(1, 401)])
    with start() as process:
        while len(list(store_path.glob("partial/*/*.json"))) < 5:
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()
        # the workers hold the pipe open: this returns only when they have ended with their parent
        process.communicate(timeout=120)
    assert "long" not in DocumentStore(store_path)
    report = ingested()
    assert (report.ingested, report.pages) == (["long"], 400)
    assert 4 * PAGES_PER_CHUNK <= report.resumed_pages < 400
    document = DocumentStore(store_path).document("long")
    assert [document.page(n).text() for n in (1, 400)] == ["page number 1", "page number 400"]


@pytest.mark.slow
def test_ingests_of_one_folder_at_a_time_are_all_right(inbox, store_path, write_pdf, start):
    for n in range(6):
        write_pdf(inbox / f"{n}.pdf", [f"document {n} page {page}" for page in range(20)])
    runs = [start() for _ in range(3)]
    outputs = sorted(run.communicate(timeout=300)[0].split() for run in runs)
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert outputs == [["0", "6", "0"], ["0", "6", "0"], ["6", "0", "0"]]
    store = DocumentStore(store_path)
    last = [store.document(str(n)).page(20).text() for n in range(6)]
    assert last == [f"document {n} page 19" for n in range(6)]
    assert list((store_path / "partial").iterdir()) == []


@pytest.mark.slow
def test_a_lock_ends_with_the_process_that_held_it(inbox, store_path, ingested, write_pdf):
    write_pdf(inbox / "a.pdf", ["x"])
    ingested()
    holder = (
        "import sys, time; from pathlib import Path; from docagent_rl.documents.layout import StoreLayout\n"
        "with StoreLayout(Path(sys.argv[1])).lock(): print('held', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", holder, str(store_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        process.kill()
    assert ingested().skipped == ["a"]


def test_parts_of_files_that_a_killed_run_left_are_removed(inbox, store_path, ingested, write_pdf):
    write_pdf(inbox / "a.pdf", ["x"])
    store_path.mkdir()
    # killed before it had made the store
    (store_path / ".docagent_store.json.abcdefgh.tmp").touch()
    ingested()
    page = next((store_path / "objects").glob("*/*.jpg"))
    manifest = next((store_path / "documents").iterdir())
    for path in (page, manifest):
        path.with_name(f".{path.name}.abcdefgh.tmp").write_bytes(b"x")
    ingested()
    assert not list(store_path.rglob("*.tmp"))
    assert page.is_file()
    assert manifest.is_file()


def test_page_ranges_of_a_run_killed_after_the_manifest_are_removed(inbox, store_path, ingested, write_pdf):
    write_pdf(inbox / "a.pdf", ["x"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingestion.shutil, "rmtree", lambda *args, **options: None)
        ingested()
    assert len(list((store_path / "partial").iterdir())) == 1
    assert ingested().skipped == ["a"]
    assert list((store_path / "partial").iterdir()) == []


def test_what_is_no_file_is_reported_and_not_waited_for(inbox, ingested, write_image):
    """Opening a named pipe waits for a writer that never comes."""
    write_image(inbox / "good" / "1.png")
    write_image(inbox / "deck" / "1.png")
    os.mkfifo(inbox / "deck" / "2.png")
    os.mkfifo(inbox / "pipe.pdf")
    report = ingested()
    assert report.ingested == ["good"]
    assert [failure.name for failure in report.failed] == ["deck", "pipe.pdf"]
