"""Folders and other processes that get in the way of an ingest; kills and full disks are in tests/faults."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.layout import StoreLayout
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


def test_what_is_no_file_is_reported_and_not_waited_for(inbox, ingested, write_image):
    """Opening a named pipe waits for a writer that never comes."""
    write_image(inbox / "good" / "1.png")
    write_image(inbox / "deck" / "1.png")
    os.mkfifo(inbox / "deck" / "2.png")
    os.mkfifo(inbox / "pipe.pdf")
    report = ingested()
    assert report.ingested == ["good"]
    assert [failure.name for failure in report.failed] == ["deck", "pipe.pdf"]
