"""A trajectory as a page: whole, and safe whatever documents and models say."""

import base64
import hashlib
import html
import io
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from docagent_rl.documents import PageRef
from docagent_rl.lab.eval.ask.answer import Answered, Evidence, Why, trajectory_page
from docagent_rl.rollout.recorder import new_trajectory
from docagent_rl.rollout.trajectory import TrajectoryTurn
from docagent_rl.samples.sample import Sample, Split

HOSTILE = (
    "</pre></title><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J \u202e ]]> {{ 7*7 }} &lt;"
)


class Reader(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, page) -> None:
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


def made(report_store, text):
    """The page of a trajectory in which this is said everywhere."""
    ref = PageRef("R", 2)
    stored = report_store.page(ref)
    shown = {"page": "R#2", "page_hash": stored.image_hash, "raster": [0, 0, *stored.size], "size": [112, 84],
             "resample": "bicubic"}  # fmt: skip
    trajectory = new_trajectory(Sample("q", "ask", Split.TEST, "R", text, ("x",)), 0, "vrag_rl")
    observation = [{"role": "user", "parts": [{"text": text}, {"image": shown}]}]
    info = {"action": {"kind": "search", "query": text}, "valid": True}
    trajectory.turns = [
        TrajectoryTurn(text, "end_of_turn", [], [], info=info, observation=observation),
        TrajectoryTurn("<answer>x</answer>", "end_of_turn", [], []),
    ]
    evidence = (Evidence(ref, Why.MAGNIFIED, ((0.25, 0.25, 0.5, 0.5),)),)
    return trajectory_page(trajectory, Answered(text, evidence), report_store, text)


@pytest.fixture(scope="module")
def page(report_store):
    return made(report_store, HOSTILE)


def test_hostile_texts_are_text_and_nothing_is_fetched(page, report_store):
    reader, harmless = Reader(page), Reader(made(report_store, "x"))
    assert reader.tags == harmless.tags
    assert [name for name, _ in reader.attributes] == [name for name, _ in harmless.attributes]
    assert "script" not in reader.tags
    sources = [value for name, value in reader.attributes if name in ("src", "href")]
    assert len(sources) == 2
    assert all(source.startswith("data:image/jpeg;base64,") for source in sources)
    assert not {"\x1b", "\u202e"} & set(page)
    told = "".join(reader.texts)
    assert told.count("<script>alert(1)</script>") == 7
    assert "{{ 7*7 }}" in told
    assert "&lt;" in told


def test_nothing_runs_and_the_style_is_the_one_that_the_policy_allows(page):
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'")
    assert "script" not in policy
    assert "unsafe" not in policy


def test_pages_are_the_documents_own_with_regions_marked(page, report_store):
    sources = re.findall(r'src="data:image/jpeg;base64,([^"]*)"', html.unescape(page))
    marked, seen = (Image.open(io.BytesIO(base64.b64decode(source))) for source in sources)
    original = report_store.page(PageRef("R", 2)).image()
    assert (seen.size, marked.size) == ((112, 84), original.size)
    red, green, blue = marked.getpixel((round(0.25 * marked.width) + 1, round(0.4 * marked.height)))
    assert red > max(green, blue) + 60
    away = (round(0.9 * marked.width), round(0.9 * marked.height))
    assert max(abs(a - b) for a, b in zip(marked.getpixel(away), original.getpixel(away), strict=True)) < 30
