"""The pytest side: `--faults`, the fixture `faults` and the table of what was tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.campaign import SEED, Campaign, Case, Form
from tests.faults.runner import run
from tests.faults.verdict import Outcome

_HEAD = """\
| campaign | what is damaged | tried | refused with a clear error | survived and right | bad |
|---|---|---:|---:|---:|---:|
"""
_SHOWN = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults", "campaigns of faults (tests/faults)")
    group.addoption("--faults", type=Form, choices=list(Form), default=Form.SHORT, help="how many cases")
    group.addoption("--faults-seed", type=int, default=SEED, help="seed of all cases")
    group.addoption("--faults-number", type=int, help="of the one case that is tried")
    group.addoption("--faults-folder", type=Path, help="where to write a table of what was tried")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--faults-folder")
    if folder and not hasattr(config, "workerinput"):  # once, not in every process
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "faults.md").write_text(_HEAD, encoding="utf-8")


@pytest.fixture
def faults(request: pytest.FixtureRequest) -> Callable[[Campaign], tuple[float, float]]:
    """Runs a campaign and fails when a case is bad; shares of the cases that are refused, and right."""
    option = request.config.getoption

    def tried(campaign: Campaign) -> tuple[float, float]:
        seed, number = option("--faults-seed"), option("--faults-number")
        alone = None if number is None else [Case(campaign.name, seed, number)]
        results = list(run(campaign, alone or campaign.cases(option("--faults"), seed)))
        counts = Counter(verdict.outcome for _, verdict in results)
        if folder := option("--faults-folder"):
            cells = (campaign.name, campaign.what, len(results), *(counts[outcome] for outcome in Outcome))
            with (folder / "faults.md").open("a", encoding="utf-8") as table:
                table.write(f"| {' | '.join(map(str, cells))} |\n")
        bad = [(case, verdict) for case, verdict in results if verdict.fault is not None]
        if bad:
            shown = [f"{verdict.fault}: {verdict.detail}\n    {case.command()}" for case, verdict in bad]
            said = "\n\n".join(shown[:_SHOWN])
            pytest.fail(f"{len(bad)} of {len(results)} cases are bad:\n\n{said}", pytrace=False)
        if alone:
            pytest.skip(f"one case has no shares: {results[0][1]}")
        return counts[Outcome.REFUSED] / len(results), counts[Outcome.RIGHT] / len(results)

    return tried
