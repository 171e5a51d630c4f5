"""The viewer in a real browser over runs that are hostile, long, growing or gone, and from files on disk."""

# ruff: noqa: F811  fixtures are imported by their names

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.viewer_browser import (  # noqa: F401
    NAMES,
    TRAJECTORIES,
    ask,
    browser,
    expect,
    export,
    in_browser,
    longest,
    opened,
    recorded,
    rows,
    site,
)
from tests.viewer_pages import HOSTILE, served
from tests.viewer_runs import run_folder

pytestmark = in_browser
expect.set_options(timeout=60_000)


@pytest.fixture
def watching(opened, world, tmp_path):
    """Serve a run of these trajectories, and look at a page of it."""

    @contextmanager
    def watch(trajectories, address=TRAJECTORIES, *, stays=False):
        run = run_folder(tmp_path / "run", trajectories)
        with served(run, world=world, folder=tmp_path) as served_at:
            opened.watched.address = served_at
            page = opened(address, address=served_at)
            yield page, run
            if not stays:
                page.close()  # before its server: a page that asks in vain complains

    return watch


def test_texts_of_others_stay_text(watching, site):
    trajectories = recorded(site, "alden")
    for trajectory in trajectories:
        trajectory.sample |= {"question": f"{HOSTILE} which?", "answers": [HOSTILE], "dataset": HOSTILE}
        trajectory.sample["question_id"] += HOSTILE
        trajectory.turns[0].text = HOSTILE + trajectory.turns[0].text
        trajectory.turns[-1].info["action"] = {"kind": HOSTILE, "text": HOSTILE}
        trajectory.prompt[0]["parts"].append({"text": HOSTILE})
        trajectory.end = HOSTILE
    with watching(trajectories) as (page, _):
        expect(rows(page)).to_have_count(12)
        expect(page.locator("table.rows")).to_contain_text(HOSTILE)
        for keys, places in ((("j", "Enter"), ("h1", "#turn-1")), (("g",), (".side",))):
            for key in keys:
                page.keyboard.press(key)
            for place in places:
                expect(page.locator(place)).to_contain_text(HOSTILE)
        assert page.evaluate("window.hacked") is None
        assert page.locator('img[src="x"], script:not([src])').count() == 0


def test_of_a_long_list_only_rows_in_sight_are_drawn(watching, site):
    each = recorded(site, "mm_doc_r1")
    trajectories = [replace(one, uid=f"{one.uid} {copy}") for copy in range(100) for one in each]
    with watching(trajectories) as (page, _):
        expect(page.locator(".list-foot")).to_have_text("1 200 trajectories", timeout=60_000)
        assert rows(page).count() < 80
        page.locator(".table-scroll").evaluate("element => element.scrollTo(0, element.scrollHeight)")
        expect(page.locator("tr[aria-rowindex='1201']:not(.pending)")).to_be_visible()
        assert rows(page).count() < 80


def test_a_run_that_goes_on_is_followed(watching, site):
    trajectories = recorded(site, "vrag_rl")
    with watching([one for one in trajectories if one.step == 1], f"{TRAJECTORIES}?step=2") as (page, run):
        expect(page.get_by_text("No trajectory matches")).to_be_visible()
        run_folder(run, trajectories)
        expect(rows(page)).to_have_count(6, timeout=60_000)


def test_a_server_that_is_gone_is_told(watching, opened, site):
    with watching(recorded(site, "vrag_rl"), stays=True) as (page, _):
        expect(rows(page)).to_have_count(12)
    expect(page.get_by_role("alert")).to_be_visible(timeout=60_000)
    expect(rows(page)).to_have_count(12)
    problems = opened.watched.problems
    assert all("ERR_CONNECTION_REFUSED" in each for each in problems)
    problems.clear()


@pytest.fixture
def exported(opened, site, world, tmp_path):
    """A page that the command wrote, opened from disk."""

    def open_file(name, *options):
        address = export(site, name, world, tmp_path / "some.html", *options)
        opened.watched.address = address
        return opened(address)

    return open_file


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_trajectory_opens_from_disk(name, exported, longest):
    row = longest(name)
    page = exported(name, "--trajectory", str(row["id"]))
    expect(page.locator("h1")).to_have_text(row["question"])
    expect(page.locator(".conversation article")).to_have_count(row["turns"] + 1)
    for image in page.locator(".conversation .frame img").all():
        image.scroll_into_view_if_needed()
        page.wait_for_function("image => image.naturalWidth > 0", arg=image.element_handle())
    page.keyboard.press("t")
    expect(page.locator(".tk").first).to_be_visible()
    assert page.get_by_role("link", name="Glance").count() == 0
