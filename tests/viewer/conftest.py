from __future__ import annotations

import json

import pytest

from docagent_rl.viewer.api import Api
from docagent_rl.viewer.folder import ViewedRun
from docagent_rl.viewer.runs import OpenRun, Places
from tests.corpus import store  # noqa: F401  a fixture
from tests.viewer_runs import run_folder, session


@pytest.fixture
def opened(store):  # noqa: F811
    """Open folders as runs, indexed."""

    def run(*paths):
        runs = [
            OpenRun(number, path.name, ViewedRun(path), Places(store.path))
            for number, path in enumerate(paths)
        ]
        for each in runs:
            each.update()
        return runs

    return run


@pytest.fixture
def asked(opened):
    """Ask the API over folders."""

    def ask(*paths):
        api = Api(opened(*paths))

        def answer(address):
            path, _, query = address.partition("?")
            return json.loads(api.answer(path, query).content)

        answer.api = api
        return answer

    return ask


@pytest.fixture
def run(tmp_path, store):  # noqa: F811
    """Two questions of two sessions each, one of them masked, and a validation."""
    sessions = [
        session(store, 0, reward=1.0),
        session(store, 1, reward=0.0, said="needle"),
        session(store, 0, question=2, reward=0.5, step=2, system="alden"),
        session(store, 1, question=2, step=2, status="masked", end="infrastructure", turns=[], reward=0.0),
        session(store, 0, split="val", step=2),
    ]
    return run_folder(tmp_path / "run", sessions)
