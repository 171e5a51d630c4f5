"""A browser that looks at runs of all systems; fixtures for tests of the viewer's page."""

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from docagent_rl.cli import app
from docagent_rl.rollout.trajectory import read_trajectories
from docagent_rl.systems import SYSTEMS
from tests.viewer_pages import CHROMIUM, FLAGS, Watched, fetched, play_run, served

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
NAMES = sorted(SYSTEMS)
GLANCE, TRAJECTORIES, FUNNEL, COMPARE = "#/glance", "#/trajectories", "#/funnel", "#/compare"


@pytest.fixture(scope="session")
def site(world, tmp_path_factory, warm_python):
    """Serve a run of each system and a second one of VRAG-RL, with the command."""
    folder = tmp_path_factory.mktemp("site")
    runs = {name: play_run(folder / name, world, name) for name in NAMES}
    runs["again"] = play_run(folder / "again", world, "vrag_rl", seed=7)
    with served(*runs.values(), world=world, folder=folder, python=warm_python) as address:
        yield SimpleNamespace(
            address=address, runs=runs, number={name: n for n, name in enumerate(runs)}
        )


@pytest.fixture(scope="module")
def browser(site):
    # after the runs were played: while its driver runs, this thread has an event loop
    with sync_api.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def opened(browser, site):
    """Open an address in a page of its own, which may not report errors or load from elsewhere."""
    contexts, watched = [], Watched(site.address)

    def open_at(target, *, size=(1440, 900), scheme="light", address=site.address):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
        )
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        watched.watch(page)
        page.goto(target if "://" in target else f"{address}{target}")
        return page

    open_at.watched = watched
    yield open_at
    for context in contexts:
        context.close()
    assert watched.problems == [], (
        watched.problems
    )  # no module of tests: pytest would not tell them


@pytest.fixture
def ask(site):
    def answer(path):
        return fetched(site.address, path)

    return answer


@pytest.fixture
def longest(ask, site):
    """Return the trajectory of a run with the most images."""

    def find(name):
        listed = ask(f"runs/{site.number[name]}/trajectories?sort=images&order=desc&limit=100")
        return max(listed["rows"], key=lambda row: (row["images"], row["turns"]))

    return find


def rows(page):
    return page.locator("table.rows tbody tr:not(.spacer):not(.pending)")


def at(page):
    return page.evaluate("location.hash")


def recorded(site, name):
    """Return the trajectories of a run."""
    folder = site.runs[name] / "trajectories"
    return [each for step in (1, 2) for each in read_trajectories(folder / f"{step}.jsonl")]


def export(site, name, world, file, *options):
    """Return the address of a file that the command wrote."""
    places = ["--store", str(world.root / "store"), "--tokenizer", str(world.root / "tokenizer")]
    found = CliRunner().invoke(
        app, ["view", str(site.runs[name]), "--export", str(file), *places, *options]
    )
    assert found.exit_code == 0, found.output
    return file.as_uri()
