"""The viewer in a real browser: every view over runs of every system."""

# ruff: noqa: F811  fixtures are imported by their names

from __future__ import annotations

import re
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest

from docagent_rl.rollout.trajectory import read_trajectories
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
MINUS = "\N{MINUS SIGN}"
AXE = FRONTEND / "node_modules/axe-core/axe.min.js"


@pytest.mark.parametrize("name", NAMES)
def test_every_view_of_every_system_opens(name, opened, site, ask, longest):
    run, row = site.number[name], longest(name)
    page = opened(f"{GLANCE}?r={run}")
    expect(page.locator("h1")).to_have_text(name)
    expect(page.locator(".funnel li")).to_have_count(7)
    expect(page.get_by_role("figure").filter(has_text="Turns")).to_be_visible()
    page.get_by_role("link", name="Sessions", exact=True).click()
    expect(page.get_by_text("12 sessions").first).to_be_visible()
    expect(rows(page)).to_have_count(12)
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
    parts = [part for turn in session["turns"] for m in turn["observation"] for part in m["parts"]]
    parts += [part for message in session["prompt"] for part in message["parts"]]
    images = [part for part in parts if "image" in part]
    page = opened(f"#/session/{run}/{row['id']}")
    expect(page.locator(".conversation .picture")).to_have_count(len(images))
    assert (len(images) == 0) is (name == "mm_doc_r1")
    for picture in page.locator(".conversation .picture > .frame:not(.origin) img").all():
        picture.scroll_into_view_if_needed()
        page.wait_for_function(
            "image => image.complete && image.naturalWidth > 0", arg=picture.element_handle()
        )
    drawn = page.locator(".conversation .picture > .frame:not(.origin) img").evaluate_all(
        "images => images.map(each => [each.naturalWidth, each.naturalHeight])"
    )
    assert sorted(drawn) == sorted(part["size"] for part in images)
    gold = set(session["record"]["evidence_pages"])
    expect(page.locator(".rail .thumb.gold")).to_have_count(len(gold))


def test_the_place_of_a_crop_and_of_the_evidence_is_drawn_on_the_page(opened, site, ask):
    listed = ask(f"runs/{site.number['vrag_rl']}/sessions?limit=100")["rows"]
    for row in listed:
        session = ask(f"runs/{site.number['vrag_rl']}/sessions/{row['id']}")
        crops = [
            part
            for turn in session["turns"]
            for message in turn["observation"]
            for part in message["parts"]
            if part.get("box") and part["box"] != [0.0, 0.0, 1.0, 1.0] and part["gold_boxes"]
        ]
        if crops:
            break
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
    expect(rows(page)).to_have_count(12)
    page.locator("fieldset", has_text="Step").get_by_label("2", exact=False).first.check()
    expect(rows(page)).to_have_count(6)
    page.get_by_label("Invalid actions, at least").fill("1")
    page.get_by_label("Invalid actions, at least").press("Enter")
    wanted = ask(f"runs/{run}/sessions?step=2&invalid=1:")
    expect(rows(page)).to_have_count(wanted["total"])
    assert 0 < wanted["total"] < 6
    page.reload()
    expect(rows(page)).to_have_count(wanted["total"])
    assert "step=2" in at(page)
    page.get_by_role("button", name="Clear").click()
    expect(rows(page)).to_have_count(12)


def test_one_group_question_or_document_is_named(opened, site, ask):
    run = site.number["vrag_rl"]
    session = next(read_trajectories(site.runs["vrag_rl"] / "trajectories" / "1.jsonl"))
    page = opened(f"{SESSIONS}?r={run}")
    named = {"uid": session.uid, "question_id": session.question_id, "doc_id": session.record["doc_id"]}
    for name, (key, value) in zip(("Group", "Question", "Document"), named.items(), strict=True):
        field = page.locator("label.named", has_text=name).locator("input")
        field.fill(value)
        field.press("Enter")
        wanted = ask(f"runs/{run}/sessions?" + urlencode({key: value}))["total"]
        expect(rows(page)).to_have_count(wanted)
        page.get_by_role("button", name="Clear").click()
        expect(rows(page)).to_have_count(12)


def test_text_is_searched(opened, site, ask):
    run = site.number["alden"]
    word = ask(f"runs/{run}/sessions?limit=1")["rows"][0]["question"].split()[-1].strip("?")
    wanted = ask(f"runs/{run}/sessions?q={word}")
    page = opened(f"{SESSIONS}?r={run}")
    expect(rows(page)).to_have_count(12)
    page.keyboard.press("/")
    page.keyboard.type(word)
    expect(rows(page)).to_have_count(wanted["total"])
    assert f"q={word}" in at(page)


def test_a_column_sorts_down_and_up(opened, site):
    page = opened(f"{SESSIONS}?r={site.number['vrag_rl']}")
    heading = page.get_by_role("button", name="Reward", exact=True)

    def rewards():
        return [
            float(text.replace(MINUS, "-")) for text in page.locator(".reward-cell .num").all_text_contents()
        ]

    heading.click()
    expect(page.locator("th[aria-sort=descending]")).to_have_count(1)
    expect(rows(page)).to_have_count(12)
    assert rewards() == sorted(rewards(), reverse=True)
    assert len(set(rewards())) > 1
    heading.click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_count(1)
    expect(rows(page)).to_have_count(12)
    assert rewards() == sorted(rewards())


def test_the_keyboard_goes_from_list_to_session_to_group_and_back(opened, site, ask):
    run = site.number["vrag_rl"]
    listed = ask(f"runs/{run}/sessions?sort=reward&order=desc&limit=3")["rows"]
    page = opened(f"{SESSIONS}?r={run}&sort=reward&order=desc")
    expect(rows(page)).to_have_count(12)
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".conversation")).to_be_visible()
    assert f"/session/{run}/{listed[1]['id']}" in at(page)
    expect(page.get_by_text("2 of 12")).to_be_visible()
    page.keyboard.press("]")
    expect(page.get_by_text("3 of 12")).to_be_visible()
    assert f"/session/{run}/{listed[2]['id']}" in at(page)
    page.keyboard.press("[")
    expect(page.get_by_text("2 of 12")).to_be_visible()
    assert f"/session/{run}/{listed[1]['id']}" in at(page)
    page.keyboard.press("j")
    expect(page.locator("#turn-1.current")).to_be_visible()
    page.keyboard.press("t")
    expect(page.locator(".tokens").first).to_be_visible()
    page.keyboard.press("g")
    expect(page.locator("table.side")).to_be_visible()
    page.evaluate("history.back()")  # in order with what the page did itself
    expect(page.locator(".conversation")).to_be_visible()
    assert f"/session/{run}/{listed[1]['id']}" in at(page)
    page.keyboard.press("u")
    expect(page.locator("tr[aria-current]")).to_have_attribute("aria-rowindex", "3")


def test_help_tells_the_keys_and_closes(opened):
    page = opened(SESSIONS)
    expect(page.get_by_role("button", name="Keyboard help")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next session of the list")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_tell_what_each_was_given(name, opened, site, ask, longest):
    run, row = site.number[name], longest(name)
    session = ask(f"runs/{run}/sessions/{row['id']}")
    tokens = session["turns"][0]["tokens"]
    page = opened(f"#/session/{run}/{row['id']}?turn=1&colour=advantage")
    shown = page.locator("#turn-1 .tk")
    expect(shown).to_have_count(len(tokens["ids"]))
    assert "".join(shown.all_text_contents()).replace("⏎\n", "\n") == "".join(tokens["texts"])
    shades = {
        text for text in (shown.first.get_attribute("class") or "").split() if re.fullmatch(r"[pn]\d", text)
    }
    assert shades == (
        {("p" if tokens["advantages"][0] > 0 else "n") + "5"} if tokens["advantages"][0] else set()
    )
    page.locator("#turn-1 .tokens").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    facts = page.locator("#turn-1 .token-facts")
    expect(facts).to_contain_text(f"2/{len(tokens['ids'])}")
    expect(facts).to_contain_text(f"id {tokens['ids'][1]}")
    for fact in ("log-prob", "trainer", "difference", "advantage", "return", "value"):
        expect(facts).to_contain_text(fact)
    page.get_by_label("Colour of tokens").select_option("drift")
    assert "colour=drift" in at(page)
    assert page.locator(
        "#turn-1 .tk.p1, #turn-1 .tk.p2, #turn-1 .tk.p3, #turn-1 .tk.n1, #turn-1 .tk.n2"
    ).count()


def test_the_strip_and_the_rewards_lead_to_turns(opened, site, longest):
    row = longest("alden")
    page = opened(f"#/session/{site.number['alden']}/{row['id']}")
    pieces = page.locator(".strip .s-sampled:not(.swatch)")
    expect(pieces).to_have_count(row["turns"])
    pieces.last.click()
    expect(page.locator(f"#turn-{row['turns']}.current")).to_be_visible()
    assert f"turn={row['turns']}" in at(page)
    page.locator(".outline button").first.click()
    expect(page.locator("#turn-1.current")).to_be_visible()


def test_an_invalid_action_says_why(opened, site, ask):
    run = site.number["vrag_rl"]
    row = ask(f"runs/{run}/sessions?invalid=1:&limit=1")["rows"][0]
    session = ask(f"runs/{run}/sessions/{row['id']}")
    turn = next(each for each in session["turns"] if not each["valid"])
    page = opened(f"#/session/{run}/{row['id']}?turn={turn['number']}")
    expect(page.locator(f"#turn-{turn['number']} .why")).to_contain_text(turn["detail"])
    expect(page.locator(f"#turn-{turn['number']}")).to_have_class(re.compile("bad"))


def test_a_group_shows_where_its_sessions_part_and_which_were_pushed(opened, site, ask):
    run = site.number["vrag_rl"]
    row = ask(f"runs/{run}/sessions?limit=1")["rows"][0]
    group = ask(f"runs/{run}/groups/{row['uid']}?step={row['step']}&split=train")
    page = opened(f"#/group/{run}/{row['uid']}?step={row['step']}&split=train")
    expect(page.locator(".side thead th")).to_have_count(len(group["sessions"]))
    assert page.locator(".side tbody tr").count() == max(len(each["turns"]) for each in group["sessions"])
    for heading, advantage in zip(page.locator(".side thead th").all(), group["advantage"], strict=True):
        told = f"{advantage:+.2f}".replace("-", MINUS) if round(advantage, 2) else "0.00"
        assert told in heading.inner_text().replace("\n", "")
    page.locator(".cell-action").first.click()
    expect(page.locator("#turn-1.current")).to_be_visible()


def test_what_the_funnel_loses_is_listed(opened, site, ask):
    run = site.number["unidoc_rl"]
    page = opened(f"{FUNNEL}?r={run}&by=step")
    lost = page.locator(".funnel-lost a").first
    count = int(re.sub(r"\D", "", lost.inner_text()))
    stages = ask(f"runs/{run}/funnel")
    assert count in {len(each) for each in stages["groups"][0]["lost"].values()}
    expect(page.get_by_role("table")).to_be_visible()
    lost.click()
    expect(rows(page)).to_have_count(count)


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
    expect(rows(page)).to_have_count(6)
    assert "step=1" in at(page)


@pytest.mark.parametrize("size", [(1440, 900), (1024, 768), (420, 800)])
@pytest.mark.parametrize("view", ["glance", "sessions", "session", "group", "funnel", "compare"])
def test_no_view_is_wider_than_its_window(view, size, opened, site, longest):
    page = opened(where(view, site, longest), size=size)
    ready(page, view)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert (
        page.evaluate(
            "document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth"
        )
        <= 0
    )


@pytest.mark.skipif(not AXE.is_file(), reason="npm's packages are not installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["glance", "sessions", "session", "group", "funnel", "compare"])
def test_nothing_serious_keeps_anyone_out(view, scheme, opened, site, longest):
    page = opened(where(view, site, longest), scheme=scheme)
    ready(page, view)
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    told = [
        (each["id"], each["impact"], [node["html"][:200] for node in each["nodes"][:3]])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
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


def ready(page, view):
    first = {
        "glance": ".chart", "sessions": ".rows .c-question", "session": ".tk", "group": ".cell-action",
        "funnel": ".heat", "compare": ".pairs td",
    }  # fmt: skip
    expect(page.locator(first[view]).first).to_be_visible()


def test_light_and_dark_follow_the_system_until_chosen(opened):
    page = opened(SESSIONS, scheme="dark")
    expect(rows(page).first).to_be_visible()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("d")
    expect(page.locator("html[data-theme=light]")).to_have_count(1)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    page.reload()
    expect(rows(page).first).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light
