"""A session as a page: whole, and safe whatever documents and models say."""

import base64
import io
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from docagent_rl.documents import PageRef
from docagent_rl.eval.ask.answer import Answered, Evidence, Why
from docagent_rl.eval.ask.page import action_of, session_page
from docagent_rl.play.player import new_trajectory
from docagent_rl.records.record import Record, Split
from docagent_rl.rollout.trajectory import TrajectoryTurn

HOSTILE = (
    "</pre></title><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J \u202e ]]> {{ 7*7 }} &lt;"
)


class Reader(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def page(report_store):
    ref = PageRef("R", 2)
    stored = report_store.page(ref)
    shown = {"page": "R#2", "page_hash": stored.image_hash, "raster": [0, 0, *stored.size], "size": [112, 84],
             "resample": "bicubic"}  # fmt: skip
    sample = Record("q", "ask", Split.TEST, "R", HOSTILE, ("x",))
    trajectory = new_trajectory(sample, 0, "vrag_rl")
    observation = [{"role": "user", "parts": [{"text": HOSTILE}, {"image": shown}]}]
    info = {"action": {"kind": "search", "query": HOSTILE}, "valid": True}
    trajectory.turns = [
        TrajectoryTurn(HOSTILE, "end_of_turn", [], [], info=info, observation=observation),
        TrajectoryTurn("<answer>x</answer>", "end_of_turn", [], []),
    ]
    evidence = (Evidence(ref, Why.MAGNIFIED, ((0.25, 0.25, 0.5, 0.5),)),)
    return session_page(trajectory, Answered(HOSTILE, evidence), report_store, HOSTILE)


def test_hostile_texts_are_text(page):
    reader = Reader()
    reader.feed(page)
    assert set(reader.tags) <= {
        "html", "head", "meta", "title", "style", "body", "header", "section", "article", "figure",
        "figcaption", "h1", "h2", "h3", "p", "pre", "img",
    }  # fmt: skip
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert "\x1b" not in page
    assert "\u202e" not in page
    told = "".join(reader.texts)
    assert told.count("<script>alert(1)</script>") == 7
    assert "{{ 7*7 }}" in told
    assert "&lt;" in told


def test_nothing_is_fetched_and_nothing_runs(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "script" not in policy
    assert "unsafe" not in policy
    reader = Reader()
    reader.feed(page)
    sources = [value for name, value in reader.attributes if name in ("src", "href")]
    assert len(sources) == 2
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)


def test_the_style_is_the_one_that_the_policy_allows(page):
    import hashlib

    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in page.replace("&#39;", "'").replace("&#43;", "+")


def test_pages_are_the_documents_own_with_regions_marked(page, report_store):
    sources = re.findall(r'src="data:image/jpeg;base64,([^"]*)"', page)
    marked, seen = (
        Image.open(io.BytesIO(base64.b64decode(source.replace("&#43;", "+")))) for source in sources
    )
    assert seen.size == (112, 84)
    original = report_store.page(PageRef("R", 2)).image()
    assert marked.size == original.size
    at = (round(0.25 * marked.width) + 1, round(0.4 * marked.height))
    red, green, blue = marked.getpixel(at)
    assert red > green + 60
    assert red > blue + 60
    away = (round(0.9 * marked.width), round(0.9 * marked.height))
    assert max(abs(a - b) for a, b in zip(marked.getpixel(away), original.getpixel(away), strict=True)) < 30


def test_actions_are_told_in_a_few_words():
    assert action_of({"action": {"kind": "search", "query": "ferries", "block": [0, 3]}}) == "search ferries"
    assert action_of({"action": {"kind": "fetch", "pages": [3, 4]}}) == "fetch 3, 4"
    assert "no tag" in action_of({"action": {"kind": "invalid"}, "valid": False, "detail": "no tag"})
    assert action_of({})
