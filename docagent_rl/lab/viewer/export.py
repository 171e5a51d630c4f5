"""Sessions as one HTML file that opens anywhere: the page with all that it would ask a server for."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.api import JSON, Api
from docagent_rl.lab.viewer.app import static_file

MOST_SESSIONS = 200
"""Of a file; pages as images make it large."""
THUMBNAIL_PX = 160
MOST_THUMBNAILS = 80
"""Pages up to which a document is shown whole; of longer ones, those that the session touched."""
_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_TAG = re.compile(r"<(?=/(?:script|style)|!--|script)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Build:
    """The page as it is shipped.

    Args:
        script: of the page.
        style: of the page.
    """

    script: str
    style: str

    @classmethod
    def shipped(cls) -> Build:
        """Of this package.

        Raises:
            UserError: it was not built.
        """
        try:
            texts = [static_file(name).read_text(encoding="utf-8") for name in ("app.js", "app.css")]
        except OSError as error:
            raise UserError(f"the page is not built: {error}") from error
        return cls(*texts)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is exported.

    Args:
        ids: of sessions; all that `query` finds where there are none.
        uid: of a group.
        query: of a list.
    """

    ids: Sequence[int] = ()
    uid: str | None = None
    query: str | None = None

    @property
    def filters(self) -> str:
        """As the query of a list.

        Raises:
            UserError: nothing is named, or more than one way.
        """
        if sum((bool(self.ids), self.uid is not None, self.query is not None)) != 1:
            raise UserError("--export takes one of --session, --group and --query")
        if self.ids:
            return "ids=" + ",".join(map(str, self.ids))
        return f"uid={component(self.uid)}" if self.uid is not None else (self.query or "")


def answers(api: Api, chosen: Chosen) -> dict[str, Any]:
    """What the page would ask for, by path without query; images as data URIs.

    Args:
        api: over one run, whose index is up to date.
        chosen: sessions.

    Raises:
        UserError: there are no such sessions, or too many.
    """
    if len(api.runs) != 1:
        raise UserError("--export writes sessions of one run")
    filters = f"{chosen.filters}&limit={MOST_SESSIONS}"
    listed = _asked(api, "/api/runs/0/sessions", filters)
    if not listed["total"]:
        raise UserError("no session matches")
    if listed["total"] > MOST_SESSIONS:
        raise UserError(
            f"{listed['total']} sessions match, a file takes {MOST_SESSIONS}: narrow --query, by step= say"
        )
    runs = _asked(api, "/api/runs")
    runs["runs"][0]["sessions"] = listed["total"]
    found = {"/api/runs": runs, "/api/runs/0/sessions": listed}
    for row in listed["rows"]:
        path = f"/api/runs/0/sessions/{row['id']}"
        found[path] = session = _asked(api, path)
        found.update(_images(api, path, session))
    for uid in {row["uid"] for row in listed["rows"]}:
        found.update(_group(api, uid, [row for row in listed["rows"] if row["uid"] == uid]))
    found["/api/runs/0/funnel"] = _asked(api, "/api/runs/0/funnel", _by_id(listed["rows"]))
    found["start"] = _start(chosen, listed["rows"])
    return found


def page(table: dict[str, Any], build: Build) -> str:
    """One HTML file that runs its own script alone and asks for nothing."""
    script, style = _closed(build.script), _closed(build.style)
    policy = _POLICY.format(script=_hash(script), style=_hash(style))
    # `<` does not stand in data: nothing in it ends its element or begins another
    data = json.dumps(table, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n<title>docagent-rl</title>\n<style>{style}</style>\n'
        f'</head>\n<body>\n<div id="root"></div>\n<script type="application/json" id="data">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def component(text: str) -> str:
    """A name within an address, encoded as the page's `encodeURIComponent` does it."""
    return quote(text, safe="!'()*~-_.")


def _closed(code: str) -> str:
    r"""Code of our own in which nothing ends its element: in a string, `<\/script` is `</script`."""
    return _TAG.sub(lambda found: "\\x3c", code)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asked(api: Api, path: str, query: str = "") -> Any:
    reply = api.answer(path, query)
    return json.loads(reply.content)


def _uri(api: Api, path: str, query: str = "") -> str:
    reply = api.answer(path, query)
    if reply.type == JSON:
        raise ValueError(f"{path} is no image")
    return f"data:{reply.type};base64,{base64.b64encode(reply.content).decode()}"


def _images(api: Api, path: str, session: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Images of a session and thumbnails of its documents, as far as the store has them."""
    if api.runs[0].store is None:
        return
    addresses = [f"{path}/images/{number}" for number in range(session["images"])]
    documents = session["document"]
    for document in documents if isinstance(documents, list) else [documents]:
        name = component(document["doc_id"])
        addresses += [f"/api/runs/0/pages/{name}/{page}" for page in _thumbnails(document)]
    for address in addresses:
        try:
            yield address, _uri(api, address, f"width={THUMBNAIL_PX}")
        except UserError:
            continue  # the page says that it is not there


def _thumbnails(document: dict[str, Any]) -> Iterable[int]:
    if document["pages"] <= MOST_THUMBNAILS:
        return range(1, document["pages"] + 1)
    names = ("gold", "fetched", "shown", "searched")
    return sorted({page for name in names for page in document[name]})


def _group(api: Api, uid: str, rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """A group that is there as a whole."""
    path = f"/api/runs/0/groups/{component(uid)}"
    group = _asked(api, path)
    if {session["id"] for session in group["sessions"]} == {row["id"] for row in rows} and len(rows) > 1:
        yield path, group


def _by_id(rows: Sequence[dict[str, Any]]) -> str:
    return "ids=" + ",".join(str(row["id"]) for row in rows)


def _start(chosen: Chosen, rows: Sequence[dict[str, Any]]) -> str:
    if chosen.uid is not None and len(rows) > 1:
        return f"#/group/0/{component(chosen.uid)}"
    return f"#/session/0/{rows[0]['id']}" if len(rows) == 1 else "#/sessions?r=0"
