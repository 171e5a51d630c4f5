"""Export of trajectories as one HTML file that opens anywhere: the page with all the answers that
it would request from a server.
"""

import base64
import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.api import Api
from docagent_rl.lab.viewer.app import static_file

MOST_TRAJECTORIES = 200
"""Most trajectories in a file; the page images make it large."""
THUMBNAIL_PX = 160
MOST_THUMBNAILS = 80
"""Longest document, in pages, of which all pages are shown; of longer ones, only those that the
trajectory touched.
"""
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_TAG = re.compile(r"<(?=/(?:script|style)|!--|script)", re.IGNORECASE)
_RUN = "/api/runs/0"


def answers(api: Api, query: str) -> dict[str, Any]:
    """Return all answers that the page requests about a link's trajectories, by path without query.

    The trajectories are those of one run; images are data URIs.

    Raises:
        UserError: there are no such trajectories, or too many.
    """
    if len(api.runs) != 1:
        raise UserError("--export takes one run: name only one")
    listed = _asked(api, f"{_RUN}/trajectories", f"{query}&limit={MOST_TRAJECTORIES}")
    total = listed["total"]
    rows = listed["rows"]
    if not total:
        raise UserError("no trajectory matches --query: change it, or leave it out")
    if total > MOST_TRAJECTORIES:
        raise UserError(
            f"{total} trajectories match, but a file holds at most {MOST_TRAJECTORIES}: narrow "
            "--query, for example with step="
        )
    runs = _asked(api, "/api/runs")
    runs["runs"][0]["trajectories"] = total
    found = {"/api/runs": runs, f"{_RUN}/trajectories": listed}
    for row in rows:
        path = f"{_RUN}/trajectories/{row['id']}"
        found[path] = trajectory = _asked(api, path)
        found.update(_images(api, path, trajectory))
    for uid in dict.fromkeys(row["uid"] for row in rows):
        own = {row["id"] for row in rows if row["uid"] == uid}
        group = _asked(api, path := f"{_RUN}/groups/{component(uid)}")
        if {trajectory["id"] for trajectory in group["trajectories"]} == own and len(own) > 1:
            found[path] = group
    found[f"{_RUN}/funnel"] = _asked(
        api, f"{_RUN}/funnel", "ids=" + ",".join(str(row["id"]) for row in rows)
    )
    return {**found, "start": _start(rows, found)}


def missing_images(found: Mapping[str, Any]) -> int:
    """Return the number of images that the trajectories of `answers` show and the store lacks."""
    trajectories = re.compile(rf"{_RUN}/trajectories/[^/]+")
    paths = [path for path in found if trajectories.fullmatch(path)]
    expected = [f"{path}/images/{n}" for path in paths for n in range(found[path]["images"])]
    return sum(address not in found for address in expected)


def _start(rows: Sequence[dict[str, Any]], found: Container[str]) -> str:
    """Return where the page opens: at the only trajectory, at the only group, otherwise at the
    list.
    """
    if len(rows) == 1:
        return f"#/trajectory/0/{rows[0]['id']}"
    uids = {component(row["uid"]) for row in rows}
    if len(uids) == 1 and f"{_RUN}/groups/{(uid := uids.pop())}" in found:
        return f"#/group/0/{uid}"
    return "#/trajectories?r=0"


def page(table: dict[str, Any], code: Sequence[str] | None = None) -> str:
    """Return an HTML file that runs only its own script and sends no requests.

    Script and style are `code`, by default those of the package's page.
    """
    code = code or [static_file(name).read_text(encoding="utf-8") for name in ("app.js", "app.css")]
    # escape whatever would end the element: inside a string, `\\x3c/script` is still `</script`
    script, style = (_TAG.sub(lambda found: "\\x3c", each) for each in code)
    hashes = [
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()
        for each in (script, style)
    ]
    policy = _POLICY.format(script=hashes[0], style=hashes[1])
    # escape every `<`, so that the data can neither end its element nor begin another
    data = json.dumps(table, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" '
        f'content="no-referrer">\n<title>docagent-rl</title>\n<style>{style}</style>\n'
        '</head>\n<body>\n<div id="root"></div>\n<script type="application/json" '
        f'id="data">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def component(text: str) -> str:
    """Encode a name within an address in the same way as `encodeURIComponent`."""
    return quote(text, safe="!'()*~-_.")


def _asked(api: Api, path: str, query: str = "") -> Any:
    return json.loads(api.answer(path, query).content)


def _images(api: Api, path: str, trajectory: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield images of a trajectory and thumbnails of its documents, as far as the store has
    them.
    """
    if api.runs[0].store is None:
        return
    addresses = [f"{path}/images/{number}" for number in range(trajectory["images"])]
    for document in trajectory["document"]:
        name = component(document["doc_id"])
        addresses += [f"{_RUN}/pages/{name}/{page}" for page in _thumbnails(document)]
    for address in addresses:
        try:
            image = api.answer(address, f"width={THUMBNAIL_PX}")
        except UserError:
            continue  # the page reports that the image is missing
        yield address, f"data:{image.type};base64,{base64.b64encode(image.content).decode()}"


def _thumbnails(document: dict[str, Any]) -> Iterable[int]:
    if document["pages"] <= MOST_THUMBNAILS:
        return range(1, document["pages"] + 1)
    return sorted(
        {page for name in ("gold", "fetched", "shown", "searched") for page in document[name]}
    )
