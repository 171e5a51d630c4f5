"""Pages that would take for ever, or all the memory there is."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

from docagent_rl.checks.probing import end_tree
from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.errors import UserError
from tests.documents.bad_pages import write_endless, write_recursive
from tests.processes import ends

pytestmark = pytest.mark.slow

FAST = RenderSettings(dpi=20)

SCRIPT = """
import sys
from pathlib import Path
from docagent_rl.documents.ingestion import ingest

ingest(Path(sys.argv[1]), Path(sys.argv[2]), workers=int(sys.argv[3]))
"""


def test_a_page_that_takes_for_ever_is_reported_and_the_rest_goes_on(inbox, tmp_path, write_pdf):
    write_endless(inbox / "endless.pdf")
    for name in ("a", "z"):
        write_pdf(inbox / f"{name}.pdf", ["x"] * 20)
    limits = IngestLimits(seconds=8)
    report = ingest(inbox, tmp_path / "store", settings=FAST, limits=limits, workers=2)
    assert report.ingested == ["a", "z"] == DocumentStore(tmp_path / "store").doc_ids()
    assert [(f.name, f.reason) for f in report.failed] == [("endless.pdf", "page 1 took more than 8 s")]


def test_a_page_that_takes_all_memory_is_reported_and_the_rest_goes_on(inbox, tmp_path, write_pdf):
    write_recursive(inbox / "recursive.pdf")
    write_pdf(inbox / "good.pdf", ["x"])
    limits = IngestLimits(memory_gib=0.5, seconds=100)
    report = ingest(inbox, tmp_path / "store", limits=limits, workers=1)
    assert report.ingested == ["good"]
    assert report.failed[0].name == "recursive.pdf"
    assert report.failed[0].reason.startswith("page 1")
    assert "0.5 GiB of memory" in report.failed[0].reason


def test_a_page_of_too_many_pixels_is_reported(inbox, tmp_path, write_pdf, write_image):
    write_pdf(inbox / "a.pdf", ["x"], size=(144, 72))
    write_image(inbox / "deck" / "1.png", size=(300, 200))
    write_image(inbox / "small" / "1.png", size=(100, 100))
    settings, limits = RenderSettings(dpi=144), IngestLimits(pixels=40_000)
    report = ingest(inbox, tmp_path / "store", settings=settings, limits=limits, workers=1)
    assert report.ingested == ["small"]
    assert [f.reason for f in report.failed] == [
        "page 1 has 288x144 pixels, more than 40000",
        "1.png has 300x200 pixels, more than 40000",
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_ingest_that_hangs_ends_by_one_interrupt(inbox, tmp_path, workers):
    write_endless(inbox / "endless.pdf")
    (tmp_path / "run.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "run.py"), str(inbox), str(tmp_path / "store"), str(workers)]
    drawing: list[psutil.Process] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 90
            while not drawing and time.monotonic() < deadline:
                time.sleep(0.2)
                children = psutil.Process(process.pid).children(recursive=True)
                drawing = [child for child in children if child.cpu_times().user > 3]
            assert drawing, "no process draws the page"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        finally:
            end_tree(process)
    assert "KeyboardInterrupt" in errors
    assert all(ends(child.pid) for child in drawing)


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"memory_gib": float("nan")}, {"pixels": 10**9}])
def test_limits_out_of_their_range_are_named(wrong):
    (field,) = wrong
    with pytest.raises(UserError, match=f"{field}=.*expected a value from"):
        IngestLimits(**wrong)
