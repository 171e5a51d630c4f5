from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from docagent_rl.errors import UserError
from docagent_rl.viewer.api import Api
from docagent_rl.viewer.export import MOST_SESSIONS, Build, Chosen, answers, component, page
from tests.viewer_runs import run_folder, session

BUILD = Build("const end = '</script><!--';\nrun();", "body { color: black }")
HOSTILE = "</script><script>alert(1)</script><!-- ]]> \u2028"


class Parts(HTMLParser):
    """What a browser makes of a file: its elements, and the text of scripts and styles."""

    def __init__(self):
        super().__init__()
        self.opened, self.texts, self.inside = [], {}, False

    def handle_starttag(self, tag, attrs):
        self.opened.append((tag, dict(attrs)))
        self.inside = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.texts.setdefault(len(self.opened) - 1, []).append(data)


def parsed(text):
    parts = Parts()
    parts.feed(text)
    return parts.opened, {at: "".join(each) for at, each in parts.texts.items()}


def hash_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture
def api(opened, run):
    return Api(opened(run))


def ids(api, query=""):
    rows = json.loads(api.answer("/api/runs/0/sessions", query).content)["rows"]
    return [row["id"] for row in rows]


def test_a_session_brings_all_that_the_page_asks_for(api):
    (number,) = ids(api, "split=val")
    found = answers(api, Chosen(ids=(number,)))
    path = f"/api/runs/0/sessions/{number}"
    assert found["start"] == f"#/session/0/{number}"
    assert found["/api/runs/0/sessions"]["total"] == 1
    assert found[path] == json.loads(api.answer(path).content)
    images = [key for key in found if key.startswith(f"{path}/images/")]
    assert len(images) == found[path]["images"] == 3
    assert found[images[0]].startswith("data:image/png;base64,")
    thumbnails = [key for key in found if key.startswith("/api/runs/0/pages/K/")]
    assert len(thumbnails) == 5
    assert "/api/runs/0/groups/group1" not in found


def test_a_group_comes_side_by_side(opened, store, tmp_path):
    folder = run_folder(
        tmp_path / "run", [session(store, 0), session(store, 1), session(store, 0, question=2)]
    )
    found = answers(Api(opened(folder)), Chosen(uid="group1"))
    assert found["start"] == "#/group/0/group1"
    assert len(found["/api/runs/0/groups/group1"]["sessions"]) == 2
    assert found["/api/runs/0/funnel"]["groups"][0]["sessions"] == 2


def test_a_query_chooses_sessions(api):
    found = answers(api, Chosen(query="split=train&step=1"))
    assert found["/api/runs/0/sessions"]["total"] == 2
    assert found["start"] == "#/sessions?r=0"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (Chosen(), "takes one of"),
        (Chosen(uid="a", query="b"), "takes one of"),
        (Chosen(query="step=9"), "no session matches"),
        (Chosen(query="colour=1"), "unknown parameter"),
    ],
)
def test_what_cannot_be_exported_is_said(api, chosen, message):
    with pytest.raises(UserError, match=message):
        answers(api, chosen)


def test_a_file_takes_so_many_sessions(opened, store, tmp_path):
    made = [session(store, number) for number in range(MOST_SESSIONS + 1)]
    api = Api(opened(run_folder(tmp_path / "run", made)))
    with pytest.raises(UserError, match="201 sessions match"):
        answers(api, Chosen(query="step=1"))


def test_the_file_runs_its_own_script_alone(opened, store, tmp_path):
    made = session(store, said=HOSTILE)
    made.record["question"] = HOSTILE
    made.uid = HOSTILE
    api = Api(opened(run_folder(tmp_path / "run", [made])))
    text = page(answers(api, Chosen(query="step=1")), BUILD)
    opened_tags, texts = parsed(text)
    scripts = [at for at, (tag, _) in enumerate(opened_tags) if tag == "script"]
    assert len(scripts) == 2
    data, code = (texts[at] for at in scripts)
    assert opened_tags[scripts[0]][1] == {"type": "application/json", "id": "data"}
    assert json.loads(data)["/api/runs/0/sessions"]["rows"][0]["question"] == HOSTILE
    (policy,) = [
        own["content"] for tag, own in opened_tags if own.get("http-equiv") == "Content-Security-Policy"
    ]
    assert "default-src 'none'" in policy
    assert hash_of(code) in policy
    (style,) = [texts[at] for at, (tag, _) in enumerate(opened_tags) if tag == "style"]
    assert hash_of(style) in policy
    assert "connect-src" not in policy


def test_code_that_spells_the_end_of_its_element_stays_code():
    _, texts = parsed(page({}, BUILD))
    code = texts[max(texts)]
    assert code.endswith("run();")
    # in a string of JavaScript the escape is the character
    assert code.replace("\\x3c", "<") == BUILD.script


def test_the_file_needs_nothing_else(api):
    text = page(answers(api, Chosen(query="split=val")), BUILD)
    assert not re.search(r"(?:src|href)\s*=", text)
    assert "http://" not in text
    assert "https://" not in text


def test_names_are_encoded_as_browsers_do_it():
    assert component("a/b c#1'(é)") == "a%2Fb%20c%231'(%C3%A9)"


def test_without_a_store_the_file_has_no_images(run, opened):
    api = Api(opened(run))
    api.runs[0].__dict__["store"] = None
    found = answers(api, Chosen(query="split=val"))
    assert not [key for key in found if "/images/" in key or "/pages/" in key]
