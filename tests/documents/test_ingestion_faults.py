"""Folders, disks and other processes that get in the way of an ingest."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from PIL import Image

from docagent_rl.documents import DocumentStore, RenderSettings, ingestion
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.sources import discover
from docagent_rl.errors import UserError

pytestmark = pytest.mark.slow

FAST = RenderSettings(dpi=20)

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
    write_pdf(outside / "in" / "good.pdf", ["x"])
    write_pdf(outside / "in" / "a" / "shut" / "hidden.pdf", ["x"])
    (outside / "in" / "a" / "shut").chmod(0)
    found = discover(outside / "in")
    assert [document.doc_id for document in found.documents] == ["good"]
    assert [(f.name, f.reason) for f in found.failed] == [
        ("a/shut", "the folder cannot be read (Permission denied)")
    ]
    with pytest.raises(UserError, match=r"shut.*cannot be read \(Permission denied\)"):
        discover(outside / "in" / "a" / "shut")
    with pytest.raises(UserError, match=r"hidden\.pdf cannot be read \(Permission denied\)"):
        discover(outside / "in" / "a" / "shut" / "hidden.pdf")


def test_a_folder_that_cannot_be_written_is_one_error(outside, write_pdf):
    write_pdf(outside / "in" / "a.pdf", ["x"])
    (outside / "in").chmod(0o555)
    with pytest.raises(UserError, match=r"cannot write .*store.*Permission denied.*make the folder writable"):
        ingest(outside / "in", outside / "in" / "store", settings=FAST, workers=1)
    (outside / "in").chmod(0)
    with pytest.raises(UserError, match=r"Permission denied"):
        StoreLayout(outside / "in" / "store").create()


@pytest.mark.parametrize("part", ["objects", "documents", "partial"])
def test_a_store_that_cannot_be_written_is_one_error(inbox, tmp_path, write_pdf, part):
    """A file where a folder should be is refused also to the administrator."""
    write_pdf(inbox / "a.pdf", ["x"])
    store = tmp_path / "store"
    StoreLayout(store).create()
    (store / part).touch()
    with pytest.raises(UserError, match=r"store.*(File exists|Not a directory)"):
        ingest(inbox, store, settings=FAST, workers=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_store_that_is_read_only_is_one_error(tmp_path, write_pdf):
    outside = tmp_path
    write_pdf(outside / "in" / "a.pdf", ["x"])
    store = outside / "store"
    ingest(outside / "in", store, settings=FAST, workers=1)
    for folder in (store, *store.rglob("*")):
        if folder.is_dir():
            folder.chmod(0o555)
    # nothing to write: no error
    assert ingest(outside / "in", store, settings=FAST, workers=1).skipped == ["a"]
    write_pdf(outside / "in" / "b.pdf", ["y"])
    with pytest.raises(UserError, match=r"cannot write .*store.*Permission denied.*make the folder writable"):
        ingest(outside / "in", store, settings=FAST, workers=1)
    for folder in (store, *store.rglob("*")):
        if folder.is_dir():
            folder.chmod(0o755)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_one_error_and_the_next_run_goes_on(inbox, tmp_path, write_image, workers):
    """A limit of the size of files stands in for the disk: both end a write half-way."""
    write_image(inbox / "small" / "1.png")
    (inbox / "large").mkdir()
    Image.effect_noise((400, 400), 80).save(inbox / "large" / "1.png")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write .*\.jpg \(File too large\): make room"):
            ingest(inbox, tmp_path / "store", workers=workers)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    report = ingest(inbox, tmp_path / "store", workers=workers)
    assert sorted(report.ingested + report.skipped) == ["large", "small"]
    assert not list((tmp_path / "store").rglob("*.tmp"))


def test_ingests_of_one_folder_at_a_time_are_all_right(inbox, tmp_path, write_pdf):
    for n in range(6):
        write_pdf(inbox / f"{n}.pdf", [f"document {n} page {page}" for page in range(40)])
    (tmp_path / "run.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "run.py"), str(inbox), str(tmp_path / "store")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = sorted(run.communicate(timeout=300)[0].split() for run in runs)
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert outputs == [["0", "6", "0"], ["0", "6", "0"], ["6", "0", "0"]]
    store = DocumentStore(tmp_path / "store")
    assert [store.document(str(n)).page(40).text() for n in range(6)] == [
        f"document {n} page 39" for n in range(6)
    ]
    assert list((tmp_path / "store" / "partial").iterdir()) == []


def test_a_lock_ends_with_the_process_that_held_it(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "a.pdf", ["x"])
    store = tmp_path / "store"
    ingest(inbox, store, settings=FAST, workers=1)
    holder = (
        "import sys, time; from pathlib import Path; from docagent_rl.documents.layout import StoreLayout\n"
        "with StoreLayout(Path(sys.argv[1])).lock(): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(store)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGKILL)
    assert ingest(inbox, store, settings=FAST, workers=1).skipped == ["a"]


def test_parts_of_files_that_a_killed_run_left_are_removed(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "a.pdf", ["x"])
    store = tmp_path / "store"
    store.mkdir()
    # killed before it had made the store
    parts = [store / ".docagent_store.json.abcdefgh.tmp"]
    parts[0].touch()
    ingest(inbox, store, settings=FAST, workers=1)
    page = next((store / "objects").glob("*/*.jpg"))
    manifest = next((store / "documents").iterdir())
    parts += [path.with_name(f".{path.name}.abcdefgh.tmp") for path in (page, manifest)]
    for path in parts:
        path.write_bytes(b"x")
    ingest(inbox, store, settings=FAST, workers=1)
    assert not list(store.rglob("*.tmp"))
    assert page.is_file()
    assert manifest.is_file()


def test_page_ranges_of_a_run_killed_after_the_manifest_are_removed(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "a.pdf", ["x"])
    store = tmp_path / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingestion.shutil, "rmtree", lambda *args, **options: None)
        ingest(inbox, store, settings=FAST, workers=1)
    assert len(list((store / "partial").iterdir())) == 1
    assert ingest(inbox, store, settings=FAST, workers=1).skipped == ["a"]
    assert list((store / "partial").iterdir()) == []


def test_what_is_no_file_is_reported_and_not_waited_for(inbox, tmp_path, write_image):
    """Opening a named pipe waits for a writer that never comes."""
    write_image(inbox / "good" / "1.png")
    write_image(inbox / "deck" / "1.png")
    os.mkfifo(inbox / "deck" / "2.png")
    os.mkfifo(inbox / "pipe.pdf")
    report = ingest(inbox, tmp_path / "store", workers=1)
    assert report.ingested == ["good"]
    assert [(f.name, f.reason) for f in report.failed] == [
        ("deck", "2.png is not a regular file"),
        ("pipe.pdf", "pipe.pdf is not a regular file"),
    ]
