"""The viewer in a real browser: every view over runs of every system."""

# ruff: noqa: F811  fixtures are imported by their names

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.viewer_browser import (  # noqa: F401
    COMPARE,
    FUNNEL,
    GLANCE,
    NAMES,
    SESSIONS,
    ask,
    at,
    browser,
    expect,
    in_browser,
    longest,
    opened,
    rows,
    site,
)
from tools.viewer_build import FRONTEND

pytestmark = in_browser
expect.set_options(timeout=60_000)
MINUS = "\N{MINUS SIGN}"
AXE = FRONTEND / "node_modules/axe-core/axe.min.js"
VIEWS = ["glance", "sessions", "session", "group", "funnel", "compare"]


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
    expect(page.locator(".funnel li")).to_have_count(7)
    expect(page.get_by_role("figure").filter(has_text="Turns")).to_be_visible()
    page.get_by_role("link", name="Sessions", exact=True).click()
    lists(page, 12)
    page.get_by_role("link", name="Funnel", exact=True).click()
    expect(page.locator("h1")).to_have_text("Evidence funnel")
    page.goto(f"{site.origin}/#/session/{run}/{row['id']}")
    expect(page.locator("h1")).to_have_text(row["question"])
    expect(page.locator(".conversation article")).to_have_count(row["turns"] + 1)
    expect(page.locator(".rail .thumb").first).to_be_visible()
    page.get_by_role("link", name="Group").click()
    expect(page.locator(".side thead th")).to_have_count(3)


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_shown_as_the_model_saw_them(name, opened, site, ask, longest):
    run, row = site.number[name], longest(name)
    session = ask(f"runs/{run}/sessions/{row['id']}")
    messages = [*session["prompt"], *(m for turn in session["turns"] for m in turn["observation"])]
    images = [part for message in messages for part in message["parts"] if "image" in part]
    page = opened(f"#/session/{run}/{row['id']}")
    expect(page.locator(".conversation .picture")).to_have_count(len(images))
    assert (len(images) == 0) is (name == "mm_doc_r1")
    shown = page.locator(".conversation .picture > .frame:not(.origin) img")
    for picture in shown.all():
        picture.scroll_into_view_if_needed()
        page.wait_for_function("image => image.naturalWidth > 0", arg=picture.element_handle())
    drawn = shown.evaluate_all("images => images.map(each => [each.naturalWidth, each.naturalHeight])")
    assert sorted(drawn) == sorted(part["size"] for part in images)
    expect(page.locator(".rail .thumb.gold")).to_have_count(len(set(session["record"]["evidence_pages"])))


def crops_of(session):
    parts = [part for turn in session["turns"] for m in turn["observation"] for part in m["parts"]]
    return [part for part in parts if part.get("box", [0, 0, 1, 1]) != [0, 0, 1, 1] and part["gold_boxes"]]


def test_the_place_of_a_crop_and_of_the_evidence_is_drawn_on_the_page(opened, site, ask):
    sessions = f"runs/{site.number['vrag_rl']}/sessions"
    rows = ask(f"{sessions}?limit=100")["rows"]
    row, crops = next((row, c) for row in rows if (c := crops_of(ask(f"{sessions}/{row['id']}"))))
    page = opened(f"#/session/{site.number['vrag_rl']}/{row['id']}")
    origin = page.locator(".frame.origin").first
    origin.scroll_into_view_if_needed()
    box = origin.locator(".boxes .crop rect:not(.halo)")
    drawn = [float(box.get_attribute(name)) for name in ("x", "y", "width", "height")]
    x1, y1, x2, y2 = crops[0]["box"]
    assert drawn == pytest.approx([x1, y1, x2 - x1, y2 - y1])
    assert origin.locator(".boxes .gold").count() == len(crops[0]["gold_boxes"])


def test_filters_narrow_the_list_and_the_address_holds_them(opened, site, ask):
    run = site.number["vrag_rl"]
    page = opened(f"{SESSIONS}?r={run}")
    lists(page, 12)
    page.locator("fieldset", has_text="Step").get_by_label("2", exact=False).first.check()
    lists(page, 6)
    fill(page.get_by_label("Invalid actions, at least"), "1")
    wanted = ask(f"runs/{run}/sessions?step=2&invalid=1:")["total"]
    assert 0 < wanted < 6
    lists(page, wanted)
    page.reload()
    lists(page, wanted)
    assert "step=2" in at(page)
    page.get_by_role("button", name="Clear").click()
    lists(page, 12)


def test_text_is_searched(opened, site, ask):
    run = site.number["alden"]
    word = ask(f"runs/{run}/sessions?limit=1")["rows"][0]["question"].split()[-1].strip("?")
    page = opened(f"{SESSIONS}?r={run}")
    lists(page, 12)
    page.keyboard.press("/")
    page.keyboard.type(word)
    lists(page, ask(f"runs/{run}/sessions?q={word}")["total"])
    assert f"q={word}" in at(page)


def test_a_column_sorts_down_and_up(opened, site):
    page = opened(f"{SESSIONS}?r={site.number['vrag_rl']}")
    for order in ("descending", "ascending"):
        page.get_by_role("button", name="Reward", exact=True).click()
        expect(page.locator(f"th[aria-sort={order}]")).to_have_count(1)
        lists(page, 12)
        texts = page.locator(".reward-cell .num").all_text_contents()
        rewards = [float(text.replace(MINUS, "-")) for text in texts]
        assert rewards == sorted(rewards, reverse=order == "descending")
        assert len(set(rewards)) > 1


def test_the_keyboard_goes_from_list_to_session_to_group_and_back(opened, site, ask):
    run = site.number["vrag_rl"]
    listed = ask(f"runs/{run}/sessions?sort=reward&order=desc&limit=3")["rows"]
    page = opened(f"{SESSIONS}?r={run}&sort=reward&order=desc")
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
        assert f"/session/{run}/{listed[place - 1]['id']}" in at(page)
    press("j", shows="#turn-1.current")
    press("t", shows=".tokens")
    press("g", shows="table.side")
    page.evaluate("history.back()")  # in order with what the page did itself
    expect(page.locator(".conversation")).to_be_visible()
    assert f"/session/{run}/{listed[1]['id']}" in at(page)
    page.keyboard.press("u")
    expect(page.locator("tr[aria-current]")).to_have_attribute("aria-rowindex", "3")


@pytest.mark.parametrize("name", NAMES)
def test_tokens_tell_what_each_was_given(name, opened, site, ask, longest):
    run, row = site.number[name], longest(name)
    tokens = ask(f"runs/{run}/sessions/{row['id']}")["turns"][0]["tokens"]
    page = opened(f"#/session/{run}/{row['id']}?turn=1&colour=advantage")
    shown = page.locator("#turn-1 .tk")
    expect(shown).to_have_count(len(tokens["ids"]))
    assert "".join(shown.all_text_contents()).replace("⏎\n", "\n") == "".join(tokens["texts"])
    advantage = tokens["advantages"][0]
    shades = [
        each for each in (shown.first.get_attribute("class") or "").split() if re.fullmatch(r"[pn]\d", each)
    ]
    assert shades == ([("p" if advantage > 0 else "n") + "5"] if advantage else [])
    page.locator("#turn-1 .tokens").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    facts = page.locator("#turn-1 .token-facts")
    of_the_second = (f"2/{len(tokens['ids'])}", f"id {tokens['ids'][1]}")
    for fact in (*of_the_second, "log-prob", "trainer", "difference", "advantage", "return", "value"):
        expect(facts).to_contain_text(fact)
    page.get_by_label("Colour of tokens").select_option("drift")
    assert "colour=drift" in at(page)
    assert page.locator(", ".join(f"#turn-1 .tk.{shade}" for shade in ("p1", "p2", "p3", "n1", "n2"))).count()


def test_the_strip_the_rewards_and_the_reason_of_an_invalid_action_belong_to_turns(opened, site, ask):
    sessions = f"runs/{site.number['vrag_rl']}/sessions"
    row = ask(f"{sessions}?invalid=1:&limit=1")["rows"][0]
    turn = next(turn for turn in ask(f"{sessions}/{row['id']}")["turns"] if not turn["valid"])
    page = opened(f"#/session/{site.number['vrag_rl']}/{row['id']}")
    place = f"#turn-{turn['number']}"
    expect(page.locator(f"{place} .why")).to_contain_text(turn["detail"])
    expect(page.locator(place)).to_have_class(re.compile("bad"))
    pieces = page.locator(".strip .s-sampled:not(.swatch)")
    expect(pieces).to_have_count(row["turns"])
    pieces.last.click()
    expect(page.locator(f"#turn-{row['turns']}.current")).to_be_visible()
    assert f"turn={row['turns']}" in at(page)
    page.locator(".outline button").first.click()
    expect(page.locator("#turn-1.current")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_group_shows_where_its_sessions_part_and_which_were_pushed(opened, site, ask):
    run = site.number["vrag_rl"]
    row = ask(f"runs/{run}/sessions?limit=1")["rows"][0]
    group = ask(f"runs/{run}/groups/{row['uid']}?step={row['step']}&split=train")
    page = opened(f"#/group/{run}/{row['uid']}?step={row['step']}&split=train")
    headings = page.locator(".side thead th")
    expect(headings).to_have_count(len(group["sessions"]))
    assert page.locator(".side tbody tr").count() == max(len(each["turns"]) for each in group["sessions"])
    for heading, advantage in zip(headings.all(), group["advantage"], strict=True):
        told = f"{advantage:+.2f}".replace("-", MINUS) if round(advantage, 2) else "0.00"
        assert told in heading.inner_text().replace("\n", "")
    page.locator(".cell-action").first.click()
    expect(page.locator("#turn-1.current")).to_be_visible()


def test_what_the_funnel_loses_is_listed(opened, site, ask):
    run = site.number["unidoc_rl"]
    page = opened(f"{FUNNEL}?r={run}&by=step")
    lost = page.locator(".funnel-lost a").first
    count = int(re.sub(r"\D", "", lost.inner_text()))
    (stages,) = ask(f"runs/{run}/funnel")["groups"]
    assert count in {len(each) for each in stages["lost"].values()}
    expect(page.get_by_role("table")).to_be_visible()
    lost.click()
    lists(page, count)


def test_the_funnel_is_saved_as_a_figure(opened, site):
    page = opened(f"{FUNNEL}?r={site.number['alden']}")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as figure").click()
    assert saved.value.suggested_filename == "funnel-alden.svg"
    figure = ElementTree.parse(saved.value.path()).getroot()
    texts = [each.text for each in figure.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "alden"
    assert {"questions", "found", "right"} <= set(texts)


def test_runs_are_compared_question_by_question(opened, site):
    a, b = site.number["vrag_rl"], site.number["again"]
    page = opened(f"{COMPARE}?a={a}&b={b}&split=train")
    expect(page.locator(".pairs tbody tr")).not_to_have_count(0)
    expect(page.locator(".summary")).to_contain_text("interval")
    page.get_by_label("by").select_option("invalid")
    assert "measure=invalid" in at(page)
    page.locator(".pairs tbody a").first.click()
    expect(page.locator(".conversation")).to_be_visible()


def test_curves_are_found_by_name_and_lead_to_their_sessions(opened, site):
    page = opened(f"{GLANCE}?r={site.number['alden']}&with={site.number['vrag_rl']}")
    page.get_by_label("Find a number by name").fill("entropy")
    expect(page.locator(".chart")).to_have_count(1)
    expect(page.locator(".legend")).to_contain_text("vrag_rl")
    page.locator(".plot").click(position={"x": 5, "y": 60})
    lists(page, 6)
    assert "step=1" in at(page)


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_is_wider_than_its_window(view, opened, site, longest):
    page = opened(where(view, site, longest))
    ready(page, view)
    main = "document.querySelector('main')"
    for width, height in ((1440, 900), (1024, 768), (420, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"innerWidth === {width}")
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
        page.wait_for_function(f"{main}.scrollWidth <= {main}.clientWidth")


@pytest.mark.skipif(not AXE.is_file(), reason="npm's packages are not installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_nothing_serious_keeps_anyone_out(view, scheme, opened, site, longest):
    page = opened(where(view, site, longest), scheme=scheme)
    ready(page, view)
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    told = [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found
            if each["impact"] in ("serious", "critical")]  # fmt: skip
    assert told == []


def where(view, site, longest):
    run = site.number["vrag_rl"]
    row = longest("vrag_rl")
    return {
        "glance": f"{GLANCE}?r={run}",
        "sessions": f"{SESSIONS}?r={run}&reward=0:&step=1-2",
        "session": f"#/session/{run}/{row['id']}?at=0&colour=advantage&turn=2",
        "group": f"#/group/{run}/{row['uid']}",
        "funnel": f"{FUNNEL}?r={run}&by=step",
        "compare": f"{COMPARE}?a={run}&b={site.number['again']}&split=train",
    }[view]


FIRST = {
    "glance": ".chart", "sessions": ".rows .c-question", "session": ".tk", "group": ".cell-action",
    "funnel": ".heat", "compare": ".pairs td",
}  # fmt: skip


def ready(page, view):
    expect(page.locator(FIRST[view]).first).to_be_visible()


def test_light_and_dark_follow_the_system_until_chosen(opened):
    page = opened(SESSIONS, scheme="dark")

    def colour():
        expect(rows(page).first).to_be_visible()
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark = colour()
    page.keyboard.press("d")
    expect(page.locator("html[data-theme=light]")).to_have_count(1)
    light = colour()
    assert light != dark
    page.reload()
    assert colour() == light
