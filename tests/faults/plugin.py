"""The pytest side: `--faults`, the fixture `faults` and the table of what was tried."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.faults.campaign import SEED, Campaign, Form
from tests.faults.runner import run
from tests.faults.verdict import Outcome

TABLE = "faults.md"
_HEAD = """\
| campaign | what is damaged | tried | refused with a clear error | survived and right | bad |
|---|---|---:|---:|---:|---:|
"""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A campaign's counts; `faults` holds a text for each bad case."""

    campaign: str
    what: str
    tried: int
    refused: int
    right: int
    faults: tuple[str, ...] = ()

    def line(self) -> str:
        cells = (self.campaign, self.what, self.tried, self.refused, self.right, len(self.faults))
        return f"| {' | '.join(map(str, cells))} |\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults", "campaigns of faults (tests/faults)")
    group.addoption("--faults", type=Form, choices=list(Form), default=Form.SHORT, help="how many cases")
    group.addoption("--faults-seed", type=int, default=SEED, help="seed of all cases")
    group.addoption("--faults-folder", type=Path, help="where to write the counts and the table")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--faults-folder")
    if folder and not hasattr(config, "workerinput"):  # once, not in every process
        folder.mkdir(parents=True, exist_ok=True)
        for path in (*folder.glob("*.json"), folder / TABLE):
            path.unlink(missing_ok=True)


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Callable[[Campaign], Row]:
    """Runs a campaign and fails when a case of it is bad."""
    option = request.config.getoption

    def tried(campaign: Campaign) -> Row:
        results = list(run(campaign, campaign.cases(option("--faults"), option("--faults-seed"))))
        counts = Counter(verdict.outcome for _, verdict in results)
        bad = [(case, verdict) for case, verdict in results if verdict.fault is not None]
        told = tuple(f"{verdict.fault}: {verdict.detail}\n    {case.command()}" for case, verdict in bad)
        refused, right = counts[Outcome.REFUSED], counts[Outcome.RIGHT]
        row = Row(campaign.name, campaign.what, len(results), refused, right, told)
        if folder := option("--faults-folder"):
            (folder / f"{campaign.name}.json").write_text(json.dumps(asdict(row)), encoding="utf-8")
        if told:
            shown = "\n\n".join(told[:_SHOWN])
            pytest.fail(f"{len(told)} of {row.tried} cases are bad:\n\n{shown}", pytrace=False)
        return row

    return tried


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    folder = config.getoption("--faults-folder")
    if not folder:
        return
    rows = [Row(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]
    told = [f"\n{row.campaign}: {fault}\n" for row in rows for fault in row.faults]
    text = _HEAD + "".join([*(row.line() for row in rows), *told])
    (folder / TABLE).write_text(text, encoding="utf-8")
    terminalreporter.section("faults")
    terminalreporter.write_line(text)
