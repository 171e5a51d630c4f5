"""The viewer in a real browser over runs that are hostile, long, growing or gone, and from files on disk."""

# ruff: noqa: F811  fixtures are imported by their names

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.viewer_browser import (  # noqa: F401
    NAMES,
    SESSIONS,
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
from tests.viewer_pages import HOSTILE, served, write_run

pytestmark = in_browser


def test_texts_of_others_stay_text(opened, world, site, tmp_path):
    sessions = recorded(site, "alden")
    for session in sessions:
        session.record |= {"question": f"{HOSTILE} which?", "answers": [HOSTILE], "dataset": HOSTILE}
        session.record["question_id"] += HOSTILE
        session.turns[0].text = HOSTILE + session.turns[0].text
        session.turns[-1].info["action"] = {"kind": HOSTILE, "text": HOSTILE}
        session.prompt[0]["parts"].append({"text": HOSTILE})
        session.end = HOSTILE
    run = write_run(tmp_path / "hostile", sessions)
    with served(run, world=world, folder=tmp_path) as origin:
        opened.watched.origin = origin
        page = opened(SESSIONS, origin=origin)
        expect(rows(page)).to_have_count(12)
        expect(page.locator("table.rows")).to_contain_text(HOSTILE)
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_contain_text(HOSTILE)
        expect(page.locator("#turn-1")).to_contain_text(HOSTILE)
        page.keyboard.press("g")
        expect(page.locator(".side")).to_contain_text(HOSTILE)
        assert page.evaluate("window.hacked") is None
        assert page.locator('img[src="x"]').count() == 0
        assert page.locator("script:not([src])").count() == 0


def test_of_a_long_list_only_rows_in_sight_are_drawn(opened, world, site, tmp_path):
    sessions = [
        replace(each, uid=f"{each.uid} {copy}") for copy in range(100) for each in recorded(site, "mm_doc_r1")
    ]
    run = write_run(tmp_path / "long", sessions)
    with served(run, world=world, folder=tmp_path) as origin:
        opened.watched.origin = origin
        page = opened(SESSIONS, origin=origin)
        expect(page.locator(".list-foot")).to_have_text("1 200 sessions", timeout=30_000)
        assert rows(page).count() < 80
        page.locator(".table-scroll").evaluate("element => element.scrollTo(0, element.scrollHeight)")
        expect(page.locator("tr[aria-rowindex='1201']:not(.pending)")).to_be_visible()
        assert rows(page).count() < 80


def test_a_run_that_goes_on_is_followed(opened, world, site, tmp_path):
    sessions = recorded(site, "vrag_rl")
    run = write_run(tmp_path / "growing", [each for each in sessions if each.step == 1])
    with served(run, world=world, folder=tmp_path) as origin:
        opened.watched.origin = origin
        page = opened(f"{SESSIONS}?step=2", origin=origin)
        expect(page.get_by_text("No session matches")).to_be_visible()
        write_run(run, sessions)
        expect(rows(page)).to_have_count(6, timeout=20_000)


def test_a_server_that_is_gone_is_told(opened, world, site, tmp_path):
    run = write_run(tmp_path / "gone", recorded(site, "vrag_rl"))
    with served(run, world=world, folder=tmp_path) as origin:
        opened.watched.origin = origin
        page = opened(SESSIONS, origin=origin)
        expect(rows(page)).to_have_count(12)
    expect(page.get_by_role("alert")).to_contain_text("does not answer", timeout=20_000)
    expect(rows(page)).to_have_count(12)
    gone = [each for each in opened.watched.problems if "ERR_CONNECTION_REFUSED" in each]
    assert gone == opened.watched.problems
    opened.watched.problems.clear()


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_session_opens_from_disk(name, opened, site, world, longest, tmp_path):
    row = longest(name)
    address = export(site, name, world, tmp_path / "one.html", "--session", str(row["id"]))
    opened.watched.origin = address
    page = opened(address)
    expect(page.locator("h1")).to_have_text(row["question"])
    expect(page.locator(".conversation article")).to_have_count(row["turns"] + 1)
    for image in page.locator(".conversation .frame img").all():
        image.scroll_into_view_if_needed()
        page.wait_for_function(
            "image => image.complete && image.naturalWidth > 0", arg=image.element_handle()
        )
    page.keyboard.press("t")
    expect(page.locator(".tk").first).to_be_visible()
    assert page.get_by_role("link", name="Glance").count() == 0


def test_an_exported_selection_is_filtered_from_disk(opened, site, world, ask, tmp_path):
    address = export(site, "vrag_rl", world, tmp_path / "some.html", "--query", "step=2")
    opened.watched.origin = address
    page = opened(address)
    expect(rows(page)).to_have_count(6)
    worst = ask(f"runs/{site.number['vrag_rl']}/sessions?step=2&invalid=1:")["total"]
    page.get_by_label("Invalid actions, at least").fill("1")
    page.get_by_label("Invalid actions, at least").press("Enter")
    expect(rows(page)).to_have_count(worst)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".conversation")).to_be_visible()


def test_an_exported_group_is_side_by_side(opened, site, world, ask, tmp_path):
    row = ask(f"runs/{site.number['doc_v_star']}/sessions?limit=1")["rows"][0]
    address = export(site, "doc_v_star", world, tmp_path / "group.html", "--group", row["uid"])
    opened.watched.origin = address
    page = opened(address)
    expect(page.locator(".side thead th")).to_have_count(3)
    page.locator(".cell-action").first.click()
    expect(page.locator("#turn-1.current")).to_be_visible()
