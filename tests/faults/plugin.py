"""The pytest side: `--faults` and the fixture `faults`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.campaign import SEED, Campaign, Form
from tests.faults.runner import run
from tests.faults.table import TABLE, Row, markdown, read_rows

_SHOWN = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults", "campaigns of faults (tests/faults)")
    group.addoption("--faults", type=Form, choices=list(Form), default=Form.SHORT, help="how many cases")
    group.addoption("--faults-seed", type=int, default=SEED, help="seed of all cases")
    group.addoption("--faults-folder", type=Path, help="where to write the counts and the table")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--faults-folder")
    if folder and not hasattr(config, "workerinput"):  # once, not in every process
        for path in (*folder.glob("*.json"), folder / TABLE):
            path.unlink(missing_ok=True)


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Callable[[Campaign], Row]:
    """Runs a campaign and fails when a case of it is bad."""
    option = request.config.getoption

    def tried(campaign: Campaign) -> Row:
        row = Row.of(
            campaign, list(run(campaign, campaign.cases(option("--faults"), option("--faults-seed"))))
        )
        if folder := option("--faults-folder"):
            row.write(folder)
        if row.faults:
            shown = "\n\n".join(row.faults[:_SHOWN])
            pytest.fail(f"{len(row.faults)} of {row.tried} cases are bad:\n\n{shown}", pytrace=False)
        return row

    return tried


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    folder = config.getoption("--faults-folder")
    if not folder:
        return
    rows = read_rows(folder)
    faults = [f"{row.campaign}: {fault}" for row in rows for fault in row.faults]
    text = markdown(rows) + ("\n" + "\n\n".join(faults) + "\n" if faults else "")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TABLE).write_text(text, encoding="utf-8")
    terminalreporter.section("faults")
    terminalreporter.write_line(text)
    terminalreporter.write_line(f"written to {folder / TABLE}")
