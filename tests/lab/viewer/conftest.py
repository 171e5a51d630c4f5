import json

import numpy as np
import pytest

from docagent_rl.lab.viewer.api import Api
from docagent_rl.lab.viewer.folder import ViewedRun
from docagent_rl.lab.viewer.runs import OpenRun
from docagent_rl.rollout.credit import CreditRow, write_credit
from tests.corpus import store  # noqa: F401  a fixture
from tests.viewer_runs import run_folder, trajectory


@pytest.fixture(scope="session")
def opened(store):  # noqa: F811
    """Open folders as runs, and index them."""

    def run(*paths):
        runs = [OpenRun(n, path.name, ViewedRun(path), store.path) for n, path in enumerate(paths)]
        for each in runs:
            each.update()
        return runs

    return run


@pytest.fixture(scope="session")
def asked(opened):
    """Ask the API about folders."""

    def ask(*paths):
        api = Api(opened(*paths))

        def answer(address):
            path, _, query = address.partition("?")
            return json.loads(api.answer(path, query).content)

        answer.api = api
        return answer

    return ask


@pytest.fixture(scope="session")
def made(store, tmp_path_factory):  # noqa: F811
    """Write a run of two questions of two trajectories each, one of them masked, and a
    validation.
    """

    def make():
        trajectories = [
            trajectory(store, 0, reward=1.0),
            trajectory(store, 1, reward=0.0, said="needle"),
            trajectory(store, 0, question=2, reward=0.5, step=2, system="alden"),
            trajectory(
                store,
                1,
                question=2,
                step=2,
                status="masked",
                end="infrastructure",
                turns=[],
                reward=0.0,
            ),
            trajectory(store, 0, split="val", step=2),
        ]
        folder = run_folder(tmp_path_factory.mktemp("made") / "run", trajectories)
        pushed = [(0, 0, [0.5] * 12), (1, 0, [-0.25] * 8), (1, 1, [-0.5] * 4)]
        rows = [
            CreditRow("group1", n, row, {"advantages": np.array(given)}) for n, row, given in pushed
        ]
        write_credit(folder, 1, "grpo", rows)
        return folder

    return make


@pytest.fixture
def run(made):
    """Return a run that a test may change."""
    return made()


@pytest.fixture(scope="session")
def ask(made, asked):
    """Ask the API about a run that stays as it is."""
    return asked(made())
