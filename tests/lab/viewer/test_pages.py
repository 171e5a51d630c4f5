"""The viewer in a real browser: every view of every system; runs that are hostile, long or
deleted.
"""

# ruff: noqa: F811  fixtures are imported by their names

import re
from contextlib import contextmanager
from xml.etree import ElementTree

import pytest

from docagent_rl.rollout.evidence import STAGES
from tests.viewer_browser import (  # noqa: F401
    COMPARE,
    FUNNEL,
    GLANCE,
    NAMES,
    TRAJECTORIES,
    ask,
    at,
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
from tools.viewer_build import FRONTEND

pytestmark = [pytest.mark.slow, in_browser]
expect.set_options(timeout=60_000)
AXE = FRONTEND / "node_modules/axe-core/axe.min.js"
VIEWS = ["glance", "trajectories", "trajectory", "group", "funnel", "compare"]


def lists(page, count):
    expect(rows(page)).to_have_count(count)


def fill(field, text):
    field.fill(text)
    field.press("Enter")


@pytest.mark.parametrize("name", NAMES)
def test_every_view_of_every_system_opens(name, opened, site, ask, longest):
    run, row = site.number[name], longest(name)
    page = opened(f"{GLANCE}?r={run}")
    expect(page.locator("h1")).to_have_text(name)
    expect(page.locator(".funnel li")).to_have_count(len(STAGES))
    expect(page.get_by_role("figure").filter(has_text="Turns")).to_be_visible()
    page.get_by_role("link", name="Trajectories", exact=True).click()
    lists(page, 12)
    page.get_by_role("link", name="Funnel", exact=True).click()
    expect(page.locator("h1")).to_have_text("Evidence funnel")
    page.goto(f"{site.address}#/trajectory/{run}/{row['id']}")
    expect(page.locator("h1")).to_have_text(row["question"])
    expect(page.locator(".conversation article")).to_have_count(row["turns"] + 1)
    expect(page.locator(".rail .thumb").first).to_be_visible()
    page.get_by_role("link", name="Group").click()
    expect(page.locator(".side thead th")).to_have_count(3)


def test_filters_narrow_the_list_and_the_address_holds_them(opened, site, ask):
    run = site.number["vrag_rl"]
    page = opened(f"{TRAJECTORIES}?r={run}")
    lists(page, 12)
    page.locator("fieldset", has_text="Step").get_by_label("2", exact=False).first.check()
    lists(page, 6)
    fill(page.get_by_label("Invalid actions, at least"), "1")
    wanted = ask(f"runs/{run}/trajectories?step=2&invalid=1:")["total"]
    assert 0 < wanted < 6
    lists(page, wanted)
    page.reload()
    lists(page, wanted)
    assert "step=2" in at(page)
    page.get_by_role("button", name="Clear").click()
    lists(page, 12)


def test_the_keyboard_goes_from_list_to_trajectory_to_group_and_back(opened, site, ask):
    run = site.number["vrag_rl"]
    listed = ask(f"runs/{run}/trajectories?sort=reward&order=desc&limit=3")["rows"]
    page = opened(f"{TRAJECTORIES}?r={run}&sort=reward&order=desc")
    lists(page, 12)

    def press(*keys, shows):
        for key in keys:
            page.keyboard.press(key)
        expect(page.locator(shows).first).to_be_visible()

    press("j", "j", "Enter", shows=".conversation")
    for key, place in (("", 2), ("]", 3), ("[", 2)):
        if key:
            page.keyboard.press(key)
        expect(page.get_by_text(f"{place} of 12")).to_be_visible()
        assert f"/trajectory/{run}/{listed[place - 1]['id']}" in at(page)
    press("j", shows="#turn-1.current")
    press("t", shows=".tokens")
    press("g", shows="table.side")
    page.evaluate("history.back()")  # in order with what the page did itself
    expect(page.locator(".conversation")).to_be_visible()
    assert f"/trajectory/{run}/{listed[1]['id']}" in at(page)
    page.keyboard.press("u")
    expect(page.locator("tr[aria-current]")).to_have_attribute("aria-rowindex", "3")


def test_what_the_funnel_loses_is_listed_and_saved_as_a_figure(opened, site, ask):
    name, run = next(
        (name, run)
        for name, run in site.number.items()
        if any(ask(f"runs/{run}/funnel")["groups"][0]["lost_counts"].values())
    )
    page = opened(f"{FUNNEL}?r={run}&by=step")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as figure").click()
    assert saved.value.suggested_filename == f"funnel-{name}.svg"
    assert name in list(ElementTree.parse(saved.value.path()).getroot().itertext())
    lost = page.locator("a.funnel-lost").first
    count = int(re.sub(r"\D", "", lost.inner_text()))
    (stages,) = ask(f"runs/{run}/funnel")["groups"]
    assert count in stages["lost_counts"].values()
    lost.click()
    lists(page, count)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_fits_its_window_and_nothing_serious_keeps_anyone_out(
    view, scheme, opened, site, longest
):
    address, last = where(view, site, longest)
    page = opened(address, scheme=scheme)
    expect(page.locator(last).first).to_be_visible()
    if AXE.is_file():  # npm's packages are installed
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
        told = [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found
                if each["impact"] in ("serious", "critical")]  # fmt: skip
        assert told == []
    main = "document.querySelector('main')"
    for width, height in ((1440, 900), (1024, 768), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"innerWidth === {width}")
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
        page.wait_for_function(f"{main}.scrollWidth <= {main}.clientWidth")


def where(view, site, longest):
    """Return the address of each view, and the element that is present when all is drawn."""
    run, row = site.number["vrag_rl"], longest("vrag_rl")
    trajectory = f"#/trajectory/{run}/{row['id']}?at=0&colour=advantage&turn=2"
    return {
        "glance": (f"{GLANCE}?r={run}", ".chart"),
        "trajectories": (f"{TRAJECTORIES}?r={run}&reward=0:&step=1:2", ".rows .c-question"),
        "trajectory": (trajectory, ".tk"),
        "group": (f"#/group/{run}/{row['uid']}", ".cell-action"),
        "funnel": (f"{FUNNEL}?r={run}&by=step", ".heat"),
        "compare": (f"{COMPARE}?a={run}&b={site.number['again']}&split=train", ".pairs td"),
    }[view]


def test_a_list_begins_with_the_newest_step_and_cuts_no_column(opened, site):
    page = opened(f"{TRAJECTORIES}?r={site.number['alden']}", size=(1280, 800))
    lists(page, 12)
    assert page.locator(".rows .c-end").count() == 12
    assert re.sub(r"\D", "", page.locator(".rows tbody td.num").first.inner_text()) == "2"
    table = "document.querySelector('.table-scroll')"
    assert page.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")
    ends = "[...document.querySelectorAll('.rows th, .rows .c-end')]"
    assert page.evaluate(f"{ends}.every(each => each.scrollWidth <= each.clientWidth)")


def test_turns_come_before_the_reward_where_there_is_one_column(opened, site, longest):
    run, row = site.number["vrag_rl"], longest("vrag_rl")
    page = opened(f"#/trajectory/{run}/{row['id']}", size=(640, 450))  # 1280 pixels at 200 %
    last_turn = page.locator(".conversation article").last.bounding_box()
    assert last_turn["y"] < page.locator(".rail").bounding_box()["y"]


@pytest.fixture
def watching(opened, world, tmp_path, warm_python):
    """Serve a run of these trajectories, and open a page of it."""

    @contextmanager
    def watch(trajectories, address=TRAJECTORIES):
        run = run_folder(tmp_path / "run", trajectories)
        with served(run, world=world, folder=tmp_path, python=warm_python) as served_at:
            opened.watched.address = served_at
            page = opened(address, address=served_at)
            yield page, run
            page.close()  # before its server: a page that asks in vain complains

    return watch


def test_texts_of_others_stay_text(watching, site):
    trajectories = recorded(site, "alden")
    for trajectory in trajectories:
        trajectory.sample |= {
            "question": f"{HOSTILE} which?",
            "answers": [HOSTILE],
            "dataset": HOSTILE,
        }
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


def test_a_question_of_many_words_is_folded(watching, site):
    trajectories = recorded(site, "vrag_rl")
    for trajectory in trajectories:
        trajectory.sample["question"] = " ".join(f"word{n}" for n in range(900))
    with watching(trajectories) as (page, _):
        expect(rows(page)).to_have_count(12)
        page.keyboard.press("j")
        for key, shows in (("Enter", "#turn-1"), ("g", ".side")):
            page.keyboard.press(key)
            expect(page.locator(shows)).to_be_visible()
            expect(page.locator("h1")).not_to_contain_text("word899")
            page.get_by_role("button", name="All 900 words").click()
            expect(page.locator("h1")).to_contain_text("word899")


@pytest.fixture
def exported(opened, site, world, tmp_path):
    """Open a page that the command wrote, from disk."""

    def open_file(name, *options):
        address = export(site, name, world, tmp_path / "some.html", *options)
        opened.watched.address = address
        return opened(address)

    return open_file


def test_an_exported_trajectory_opens_from_disk(exported, longest):
    row = longest("unidoc_rl")
    page = exported("unidoc_rl", "--query", f"ids={row['id']}")
    expect(page.locator("h1")).to_have_text(row["question"])
    expect(page.locator(".conversation article")).to_have_count(row["turns"] + 1)
    for image in page.locator(".conversation .frame img").all():
        image.scroll_into_view_if_needed()
        page.wait_for_function("image => image.naturalWidth > 0", arg=image.element_handle())
    page.keyboard.press("t")
    expect(page.locator(".tk").first).to_be_visible()
    assert page.get_by_role("link", name="Glance").count() == 0
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("innerWidth === 390")
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
