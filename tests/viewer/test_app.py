from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from urllib.parse import quote

import pytest
import uvicorn

from docagent_rl.errors import UserError
from docagent_rl.viewer.api import Api
from docagent_rl.viewer.app import make_app
from docagent_rl.viewer.runs import Poller
from tests.viewer_runs import run_folder, session

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[2J</textarea>{{7*7}}"


@pytest.fixture
def served():
    """Serve an API on a port of its own; returns a function that asks it."""
    running = []

    def serve(api):
        handle = socket.create_server(("127.0.0.1", 0))
        port = handle.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(make_app(api), log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [handle]}, daemon=True)
        thread.start()
        running.append((server, thread))
        while not server.started:
            time.sleep(0.01)

        def ask(path, method="GET", host=None):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            connection.putrequest(method, path, skip_host=True)
            connection.putheader("Host", host or f"127.0.0.1:{port}")
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

        return ask

    yield serve
    for server, thread in running:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def ask(served, opened, run):
    return served(Api(opened(run), "1.2"))


def test_a_run_is_described(ask):
    status, headers, body = ask("/api/runs")
    found = json.loads(body)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert found["version"] == "1.2"
    (one,) = found["runs"]
    assert (one["sessions"], one["systems"], one["kind"]) == (5, ["alden", "vrag_rl"], "training")
    assert one["steps"] == {"train": [1, 2], "val": [2]}
    assert one["terms"] == ["format", "outcome"]
    assert one["store"] is True
    assert one["indexing"] is None


def test_facets_count_under_the_other_filters(ask):
    found = json.loads(ask("/api/runs/0/facets?split=train&system=alden")[2])
    assert found["split"] == [{"value": "train", "count": 1}]
    assert found["system"] == [{"value": "alden", "count": 1}, {"value": "vrag_rl", "count": 3}]
    assert found["mask"] == []
    assert found["ranges"]["reward"] == [0.5, 0.5]


def test_a_list_comes_in_pieces_and_in_order(ask):
    path = "/api/runs/0/sessions?sort=reward&order=desc&split=train"
    whole = json.loads(ask(path)[2])["rows"]
    assert [row["reward"] for row in whole] == [1.0, 0.5, 0.0, 0.0]
    piece = json.loads(ask(f"{path}&offset=1&limit=2")[2])
    assert (piece["total"], piece["rows"]) == (4, whole[1:3])
    by_term = json.loads(ask("/api/runs/0/sessions?sort=term:outcome&order=desc&limit=2")[2])["rows"]
    assert [row["terms"]["outcome"] for row in by_term] == [1.0, 1.0]


@pytest.mark.parametrize(
    "path",
    ["/api/runs/7", "/api/runs/7/sessions", "/api/runs/-1/sessions", "/api/runs/0/sessions/1",
     "/api/runs/0/sessions/x", "/api/runs/0/pages/..%2f..%2f..%2fetc%2fpasswd/1", "/api/runs/0/pages/K/99",
     "/api/runs/0/pages/K/1?width=x", "/api/runs/0/groups/none", "/api/runs/0/sessions?bogus=1", "/api/",
     "/api/runs/0/funnel?by=x", "/api/runs/0/sessions/%2e%2e%2f1", "/app.py", "/view.sqlite"],
)  # fmt: skip
def test_what_is_not_there_is_said(ask, path):
    status, _, body = ask(path)
    assert status == 404
    assert json.loads(body)["error"]


@pytest.mark.parametrize(
    "path", ["/../view.sqlite", "/..%2f..%2fetc/passwd", "/static/../app.py", "//etc/passwd", "/%2e%2e/x"]
)
def test_no_path_leads_out(ask, path):
    status, _, body = ask(path)
    assert status in (400, 404)
    assert b"root:" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_everything_is_for_reading(ask, method):
    assert ask("/api/runs", method)[0] == 405


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.x", ""]
)
def test_a_page_elsewhere_cannot_ask_under_its_own_name(ask, host):
    assert ask("/api/runs", host=host or " ")[0] == 400
    assert ask("/", host=host or " ")[0] == 400


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:99"])
def test_names_of_this_machine_are_served(ask, host):
    assert ask("/api/runs", host=host)[0] == 200


@pytest.mark.parametrize("path", ["/", "/api/runs", "/nowhere", "/api/nowhere"])
def test_every_answer_is_guarded(ask, path):
    headers = ask(path)[1]
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_text_of_others_travels_as_data(served, opened, tmp_path, store):
    made = session(store, said=HOSTILE)
    made.record["question"] = made.record["question_id"] = HOSTILE
    made.turns[0].observation[0]["parts"][0]["text"] = HOSTILE
    uid = made.uid = f"../{HOSTILE}"
    ask = served(Api(opened(run_folder(tmp_path / "run", [made]))))
    status, headers, body = ask("/api/runs/0/sessions")
    (row,) = json.loads(body)["rows"]
    assert (status, headers["content-type"]) == (200, "application/json")
    assert row["question"] == HOSTILE
    found = json.loads(ask(f"/api/runs/0/sessions/{row['id']}")[2])
    assert HOSTILE in found["turns"][0]["text"]
    group = json.loads(ask(f"/api/runs/0/groups/{quote(uid, safe='')}")[2])
    assert [each["id"] for each in group["sessions"]] == [row["id"]]


def test_images_are_kept_by_the_browser_and_answers_are_not(ask):
    (row,) = json.loads(ask("/api/runs/0/sessions?split=val")[2])["rows"]
    status, headers, body = ask(f"/api/runs/0/sessions/{row['id']}/images/1")
    assert (status, headers["content-type"], body[:4]) == (200, "image/png", b"\x89PNG")
    assert "immutable" in headers["cache-control"]
    assert ask("/api/runs/0/pages/K/3?width=40")[1]["content-type"] == "image/jpeg"
    assert ask("/api/runs")[1]["cache-control"] == "no-store"


def test_a_run_that_grows_is_seen(served, opened, run, store):
    runs = opened(run)
    ask = served(Api(runs))
    before = json.loads(ask("/api/runs")[2])["runs"][0]
    poller = Poller(runs, pause_s=0.05)
    poller.start()
    run_folder(run, [session(store, number, step=3) for number in range(4)])
    for _ in range(1200):
        now = json.loads(ask("/api/runs")[2])["runs"][0]
        if now["sessions"] == 9:
            break
        time.sleep(0.05)
    poller.stop()
    assert now["sessions"] == 9
    assert now["steps"]["train"] == [1, 2, 3]
    assert now["revision"] > before["revision"]


def test_two_runs_are_told_apart(served, opened, run, store, tmp_path):
    other = run_folder(tmp_path / "other", [session(store, split="val", reward=0.25)])
    ask = served(Api(opened(run, other)))
    runs = json.loads(ask("/api/runs")[2])["runs"]
    assert [(each["id"], each["name"], each["sessions"]) for each in runs] == [(0, "run", 5), (1, "other", 1)]
    assert [row["reward"] for row in json.loads(ask("/api/runs/1/sessions")[2])["rows"]] == [0.25]


def test_an_index_that_fails_is_said(opened, run):
    (one,) = opened(run)
    one.folder.index_file.unlink()
    one.folder.index_file.mkdir()
    assert not one.update()
    assert "cannot be kept" in one.failure
    with pytest.raises(UserError, match="cannot be kept"):
        one.require_update()


def test_an_index_that_breaks_while_it_is_served_is_said_and_made_anew(served, opened, run):
    runs = opened(run)
    ask = served(Api(runs))
    runs[0].folder.index_file.write_bytes(b"no database at all, and longer than its header" * 9)
    status, _, body = ask("/api/runs/0/sessions")
    assert status == 503
    assert "index cannot be read" in json.loads(body)["error"]
    assert runs[0].update()
    assert json.loads(ask("/api/runs/0/sessions")[2])["total"] == 5
