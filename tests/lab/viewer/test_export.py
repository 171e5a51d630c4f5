import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.api import Api
from docagent_rl.lab.viewer.export import (
    MOST_TRAJECTORIES,
    answers,
    component,
    missing_images,
    page,
)
from tests.viewer_runs import run_folder, trajectory

DOCS_FILE = Path(__file__).resolve().parents[3] / "docs/trajectory.html"
CODE = ("const end = '</script><!--';\nrun();", "body { color: black }")
HOSTILE = "</script><script>alert(1)</script><!-- ]]> \u2028"


class Parts(HTMLParser):
    """The elements that a browser finds in a file, each with the text right after its tag."""

    def __init__(self, text):
        super().__init__()
        self.found = [("", {}, [])]
        self.feed(text)

    def handle_starttag(self, tag, attrs=()):
        self.found.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        self.handle_starttag("")

    def handle_data(self, data):
        self.found[-1][2].append(data)

    def of(self, tag):
        return [(given, "".join(texts)) for name, given, texts in self.found if name == tag]


def hash_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture(scope="module")
def api(opened, made):
    return Api(opened(made()))


def test_a_trajectory_brings_all_that_the_page_asks_for_and_nothing_else(api):
    (row,) = json.loads(api.answer("/api/runs/0/trajectories", "split=val").content)["rows"]
    number = row["id"]
    found = answers(api, f"ids={number}")
    path = f"/api/runs/0/trajectories/{number}"
    assert found["start"] == f"#/trajectory/0/{number}"
    assert found["/api/runs/0/trajectories"]["total"] == 1
    assert found[path] == json.loads(api.answer(path).content)
    images = [key for key in found if key.startswith(f"{path}/images/")]
    assert len(images) == found[path]["images"] == 3
    assert found[images[0]].startswith("data:image/png;base64,")
    assert len([key for key in found if key.startswith("/api/runs/0/pages/K/")]) == 5
    assert missing_images(found) == 0
    found.pop(images[0])
    assert missing_images(found) == 1
    assert "/api/runs/0/groups/group1" not in found
    assert not re.search(r"(?:src|href)\s*=|https?://", page(found, CODE))


def test_a_group_comes_side_by_side_and_a_query_chooses_trajectories(opened, store, tmp_path):
    made = [trajectory(store, 0), trajectory(store, 1), trajectory(store, 0, question=2)]
    api = Api(opened(run_folder(tmp_path / "run", made)))
    found = answers(api, "uid=group1")
    assert found["start"] == "#/group/0/group1"
    assert len(found["/api/runs/0/groups/group1"]["trajectories"]) == 2
    assert found["/api/runs/0/funnel"]["groups"][0]["trajectories"] == 2
    found = answers(api, "question_id=q1&question_id=q2")
    assert (found["/api/runs/0/trajectories"]["total"], found["start"]) == (3, "#/trajectories?r=0")


@pytest.mark.parametrize(
    ("query", "message"), [("step=9", "no trajectory"), ("colour=1", "colour")]
)
def test_what_cannot_be_exported_is_said(api, query, message):
    with pytest.raises(UserError, match=message):
        answers(api, query)


def test_a_file_takes_so_many_trajectories(opened, store, tmp_path):
    made = [trajectory(store, number, turns=[]) for number in range(MOST_TRAJECTORIES + 1)]
    api = Api(opened(run_folder(tmp_path / "run", made)))
    with pytest.raises(UserError, match=f"{MOST_TRAJECTORIES + 1} "):
        answers(api, "step=1")


def test_the_file_runs_its_own_script_alone(opened, store, tmp_path):
    made = trajectory(store, said=HOSTILE)
    made.sample["question"] = made.uid = HOSTILE
    api = Api(opened(run_folder(tmp_path / "run", [made])))
    parts = Parts(page(answers(api, "step=1"), CODE))
    (given, data), (_, code) = parts.of("script")
    assert given == {"type": "application/json", "id": "data"}
    assert json.loads(data)["/api/runs/0/trajectories"]["rows"][0]["question"] == HOSTILE
    # code that spells the end of its element stays code: in a string the escape is the character
    assert code.replace("\\x3c", "<") == CODE[0]
    (policy,) = [
        m["content"]
        for m, _ in parts.of("meta")
        if m.get("http-equiv") == "Content-Security-Policy"
    ]
    ((_, style),) = parts.of("style")
    for part in ("default-src 'none'", hash_of(code), hash_of(style)):
        assert part in policy
    assert "connect-src" not in policy


def test_names_are_encoded_as_browsers_do_it():
    assert component("a/b c#1'(é)") == "a%2Fb%20c%231'(%C3%A9)"


def test_the_exported_file_of_the_docs_is_small_and_names_no_place():
    """It is published: no folder of the machine that wrote it, and no address to load from."""
    text = DOCS_FILE.read_text()
    assert len(text.encode()) < 600_000
    (_, data), _ = Parts(text).of("script")
    table = json.loads(data)
    (trajectory,) = table["/api/runs/0/trajectories"]["rows"]
    images = table[f"/api/runs/0/trajectories/{trajectory['id']}"]["images"]
    stored = [name for name in table if "/images/" in name]
    assert len(stored) == images > 0
    assert not re.search(r"/(?:home|root|tmp|work|Users)/|https?://", data)
