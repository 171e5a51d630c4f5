"""Shared fixtures; files with the longest tests run first, end-to-end tests last."""

import gc
import logging
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tools.warm.python import COLD, WARM, WarmPython

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the cores are the other processes' too
# Ray's exporter of metrics can crash a process (docs/cluster.md)
os.environ |= {"RAY_enable_metrics_collection": "0"}
# a Ray of this machine's, or of a test in another process, is no cluster here; short, for sockets
os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="dr-", dir="/tmp")

import pytest
from hypothesis import HealthCheck, Phase, settings

# a process of a test begins with its imports done where the test asks for that, and not because
# this one did
sys.executable = os.environ.setdefault(COLD, sys.executable)
multiprocessing.set_executable(sys.executable)
# a shell ignores it for what it starts in the background, and so would every command started here
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.composing"]

SLOW = "mark.slow"
"""A text that each file with slow tests contains."""
RAY_FOLDER = Path(os.environ["RAY_TMPDIR"])

# a busy machine is no failure; the same examples each time, others with HYPOTHESIS_PROFILE=explore
BUSY = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", **BUSY, derandomize=True)
settings.register_profile("explore", **BUSY)
# what a mutant needs: the first example that fails
settings.register_profile(
    "first", **BUSY, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_ignore_collect(collection_path, config):
    """Import no other files if only slow tests are selected: that would take a minute per
    process.
    """
    if config.option.markexpr.startswith("slow") and collection_path.name.startswith("test_"):
        return SLOW not in collection_path.read_text() or None
    return None


def pytest_collection_modifyitems(items):
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    if unnamed := [str(path) for path in slow if SLOW not in path.read_text()]:
        raise pytest.UsageError(
            f"slow tests, and the file does not say {SLOW}: {', '.join(unnamed)}"
        )
    for item in items:
        if "e2e" in Path(item.path).parts:
            item.add_marker(pytest.mark.e2e)
    # what takes longest may not begin last, when the other processes are done
    marks = ((item.path, mark) for item in items for mark in item.iter_markers("slow"))
    first = {path for path, mark in marks if mark.kwargs.get("first")}
    items.sort(
        key=lambda item: (item.get_closest_marker("e2e") is not None, item.path not in first)
    )


def pytest_configure(config):
    gc.disable()  # while all is imported, of which nothing is garbage
    if hasattr(config, "workerinput"):
        return
    if WARM not in os.environ:
        warm = WarmPython(lazy=True).__enter__()
        os.environ[WARM] = str(warm.executable)
        config.add_cleanup(warm.__exit__)
    # processes of xdist's are forks of it too
    config.option.tx = [f"popen//python={os.environ[WARM]}"] * len(config.option.tx or ())


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(exitstatus):
    if exitstatus == pytest.ExitCode.OK or not any(RAY_FOLDER.iterdir()):
        shutil.rmtree(RAY_FOLDER, ignore_errors=True)


@pytest.fixture(autouse=True)
def _heard():
    """Undo the silencing of loggers by an earlier test."""
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    # pytest's own, which live as long as the process (see `patches/root_logger_level.py`)
    for handler in root.handlers:
        handler.setLevel(logging.NOTSET)
    logging.getLogger("docagent_rl").setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def ray_folder() -> Path:
    """Return the folder with the sockets and logs of this process's Ray; it is kept if a test
    failed.
    """
    return RAY_FOLDER


@pytest.fixture(scope="session")
def warm_python() -> Path:
    """Return an interpreter whose processes begin with the imports of a run of the trainer done."""
    return Path(os.environ[WARM])


@pytest.fixture
def warm_processes(monkeypatch, warm_python) -> None:
    """Let processes that the tested code starts begin with the imports of a run done."""
    monkeypatch.setattr(sys, "executable", str(warm_python))


@pytest.fixture(scope="session")
def processor():
    """Return the tiny model's processor: real classes, small tokenizer."""
    from docagent_rl.lab.tiny.shapes import build_processor
    from docagent_rl.lab.tiny.tokenizer import build_tokenizer

    return build_processor(build_tokenizer())


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Return three synthetic reports, ingested and indexed: (store, retriever, samples)."""
    from tests.crowd.world import make_world

    return make_world(tmp_path_factory.mktemp("world"), model=False)
