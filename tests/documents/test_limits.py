"""Pages that would take for ever, or all the memory there is."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

from docagent_rl.checks.probing import end_tree
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.errors import UserError
from tests.documents.bad_pages import write_endless, write_recursive
from tests.processes import ends

SCRIPT = """
import sys
from pathlib import Path
from docagent_rl.documents.ingestion import ingest

ingest(Path(sys.argv[1]), Path(sys.argv[2]), workers=2)
"""


@pytest.mark.slow
def test_a_page_that_takes_all_memory_is_reported_and_the_rest_goes_on(inbox, store_path, write_pdf):
    write_recursive(inbox / "recursive.pdf")
    write_pdf(inbox / "good.pdf", ["x"])
    report = ingest(inbox, store_path, limits=IngestLimits(memory_gib=0.5, seconds=600), workers=1)
    assert report.ingested == ["good"]
    assert report.failed[0].name == "recursive.pdf"
    assert report.failed[0].reason.startswith("page 1")
    assert "0.5 GiB" in report.failed[0].reason


def test_a_page_of_too_many_pixels_is_reported(inbox, ingested, write_pdf, write_image):
    write_pdf(inbox / "a.pdf", ["x"], size=(144, 72))
    write_image(inbox / "deck" / "1.png", size=(300, 200))
    write_image(inbox / "small" / "1.png", size=(100, 100))
    report = ingested(settings=RenderSettings(dpi=144), limits=IngestLimits(pixels=40_000))
    assert report.ingested == ["small"]
    for failure, pixels in zip(report.failed, ("288x144", "300x200"), strict=True):
        assert pixels in failure.reason
        assert "40000" in failure.reason


@pytest.mark.slow
def test_an_ingest_that_hangs_ends_by_one_interrupt(inbox, tmp_path):
    write_endless(inbox / "endless.pdf")
    (tmp_path / "run.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "run.py"), str(inbox), str(tmp_path / "store")]
    drawing: list[psutil.Process] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not drawing:
                assert process.poll() is None
                time.sleep(0.1)
                children = psutil.Process(process.pid).children(recursive=True)
                drawing = [child for child in children if child.cpu_times().user > 2]
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        finally:
            end_tree(process)
    assert "KeyboardInterrupt" in errors
    assert all(ends(child.pid, 60) for child in drawing)


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"memory_gib": float("nan")}, {"pixels": 10**9}])
def test_limits_out_of_their_range_are_named(wrong):
    with pytest.raises(UserError, match=f"{next(iter(wrong))}="):
        IngestLimits(**wrong)


LIMITED = """
import resource
from pathlib import Path
from docagent_rl.documents.memory import require
require(1e6)  # without a limit there is room
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 28), taken + (1 << 28)))
require(0.2)
try:
    require(0.3)
except MemoryError as error:
    print(error)
"""


def test_a_limit_of_memory_is_told_before_it_is_met():
    assert subprocess.check_output([sys.executable, "-c", LIMITED], text=True).startswith("0.3 GiB")
