import asyncio
import json
import threading
import time
from urllib.parse import unquote

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.api import Api
from docagent_rl.lab.viewer.app import make_viewer_app
from docagent_rl.lab.viewer.runs import follow_runs
from tests.viewer_runs import run_folder, trajectory


async def call(app, path, method, headers):
    """Call the application as a server does; return status, headers and body."""
    target, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "root_path": "",
        "path": unquote(target),
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "headers": headers,
    }
    requests, sent = asyncio.Queue(), []
    requests.put_nowait({"type": "http.request"})

    async def send(message):
        sent.append(message)

    await app(scope, requests.get, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(each.get("body", b"") for each in sent[1:])


def served(runs):
    app = make_viewer_app(Api(runs), "right", "kept")

    def get(path, method="GET", headers=((b"cookie", b"kept=right"),)):
        return asyncio.run(call(app, path, method, headers))

    get.json = lambda path: json.loads(get(path)[2])
    return get


@pytest.fixture(scope="module")
def get(opened, made):
    return served(opened(made()))


def test_a_run_is_described(get):
    status, headers, body = get("/api/runs")
    found = json.loads(body)
    assert (status, headers["content-type"]) == (200, "application/json")
    (one,), steps = found["runs"], {"train": [1, 2], "val": [2]}
    expected = {"trajectories": 5, "systems": ["alden", "vrag_rl"], "kind": "training"}
    expected |= {"steps": steps, "terms": ["format", "outcome"], "indexing": None}
    assert {name: one[name] for name in expected} == expected


def test_facets_count_under_the_other_filters_and_a_list_comes_in_pieces_and_in_order(get):
    found = get.json("/api/runs/0/facets?split=train&system=alden")
    assert found["split"] == [{"value": "train", "count": 1}]
    assert found["system"] == [{"value": "alden", "count": 1}, {"value": "vrag_rl", "count": 3}]
    assert (found["mask"], found["ranges"]["reward"]) == ([], [0.5, 0.5])
    path = "/api/runs/0/trajectories?sort=reward&order=desc&split=train"
    whole = get.json(path)["rows"]
    assert [row["reward"] for row in whole] == [1.0, 0.5, 0.0, 0.0]
    piece = get.json(f"{path}&offset=1&limit=2")
    assert (piece["total"], piece["rows"]) == (4, whole[1:3])
    by_term = get.json("/api/runs/0/trajectories?sort=term:outcome&order=desc&limit=2")["rows"]
    assert [row["terms"]["outcome"] for row in by_term] == [1.0, 1.0]


@pytest.mark.parametrize(
    "path",
    ["/api/runs/7", "/api/runs/7/trajectories", "/api/runs/-1/trajectories",
    "/api/runs/0/trajectories/1",
     "/api/runs/0/trajectories/x", "/api/runs/0/pages/..%2f..%2f..%2fetc%2fpasswd/1",
     "/api/runs/0/pages/K/99",
     "/api/runs/0/pages/K/1?width=x", "/api/runs/0/groups/none", "/api/runs/0/trajectories?bogus=1",
     "/api/",
     "/api/runs/0/funnel?by=x", "/api/runs/0/trajectories/%2e%2e%2f1", "/app.py", "/view.sqlite"],
)  # fmt: skip
def test_what_is_not_there_is_said(get, path):
    status, _, body = get(path)
    assert status == 404
    assert json.loads(body)["error"]


@pytest.mark.parametrize(
    "path", ["/../view.sqlite", "/..%2f..%2fetc/passwd", "//etc/passwd", "/%2e%2e/x"]
)
def test_no_path_leads_out(get, path):
    status, _, body = get(path)
    assert (status in (400, 404), b"root:" in body) == (True, False)
    assert get("/api/runs", "POST")[0] == get("/api/runs", "DELETE")[0] == 405


def test_only_who_has_the_token_may_look(get):
    for path in ("/", "/app.js", "/api/runs", "/api/runs/0/trajectories"):
        assert [get(path, headers=())[0], get(path)[0]] == [401, 200]
    first = get("/?token=right", headers=[(b"host", b"anything.example:8765")])
    assert (first[0], first[1]["location"], first[1]["set-cookie"].partition(";")[0]) == (
        303,
        "/",
        "kept=right",
    )


@pytest.mark.parametrize("path", ["/", "/api/runs", "/nowhere", "/api/nowhere"])
def test_every_answer_is_guarded(get, path):
    headers = get(path)[1]
    policy = headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert not any("unsafe" in each for each in policy)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_images_are_kept_by_the_browser_and_answers_are_not(get):
    (row,) = get.json("/api/runs/0/trajectories?split=val")["rows"]
    status, headers, body = get(f"/api/runs/0/trajectories/{row['id']}/images/1")
    assert (status, headers["content-type"], body[:4]) == (200, "image/png", b"\x89PNG")
    assert "immutable" in headers["cache-control"]
    assert get("/api/runs/0/pages/K/3?width=40")[1]["content-type"] == "image/jpeg"
    assert get("/api/runs")[1]["cache-control"] == "no-store"


def test_a_run_that_grows_is_seen(opened, run, store):
    runs = opened(run)
    get = served(runs)
    (before,) = get.json("/api/runs")["runs"]
    over = threading.Event()
    threading.Thread(target=follow_runs, args=(runs, over, 0.01), daemon=True).start()
    run_folder(run, [trajectory(store, number, step=3) for number in range(4)])
    end, now = time.monotonic() + 60, before
    while now["trajectories"] != 9 and time.monotonic() < end:
        (now,) = get.json("/api/runs")["runs"]
    over.set()
    assert (now["trajectories"], now["steps"]["train"]) == (9, [1, 2, 3])
    assert now["revision"] > before["revision"]


def test_an_index_that_fails_is_said_and_one_that_breaks_is_made_anew(opened, run):
    (one,) = runs = opened(run)
    get, file = served(runs), one.folder.index_file
    file.write_bytes(b"no database at all, and longer than its header" * 9)
    assert get("/api/runs/0/trajectories")[0] == 503
    assert one.update()
    assert get.json("/api/runs/0/trajectories")["total"] == 5
    file.unlink()
    file.mkdir()
    with pytest.raises(UserError, match=str(run)):
        one.update()
    assert one.failure
