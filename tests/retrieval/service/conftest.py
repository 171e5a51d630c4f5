"""A store with an index, and its server in another process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from docagent_rl.documents import PageRef

TOKEN = "s3cret-token-of-the-tests"
OPTIONS = (
    {"top_k": 3},
    {"top_k": 2, "doc_id": "animals"},
    {"top_k": 9, "exclude": {PageRef("animals", 2)}},
)
"""The settings of searches."""


@contextmanager
def running(store, index, *options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """The server's process and its URL."""
    command = [sys.executable, "-m", "docagent_rl.cli", "index", "serve"]
    command += ["--store", str(store.path), "--index", str(index), *options]
    environment = {**os.environ, "SEARCH_TOKEN": TOKEN}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()
        yield process, next(word for word in line.split() if word.startswith("http://"))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="session")
def server(store, saved):
    """Return the URL of a server that requires the token."""
    options = ("--token-env", "SEARCH_TOKEN")
    with running(store, saved, *options) as (_, url), pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_TOKEN", TOKEN)
        yield url
