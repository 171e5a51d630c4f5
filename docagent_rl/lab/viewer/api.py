"""The viewer's API: the answer for every address, also used to write exported files."""

import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import orjson

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer import queries
from docagent_rl.lab.viewer.comparison import comparison
from docagent_rl.lab.viewer.credit import trajectory_credit
from docagent_rl.lab.viewer.funnel import funnel
from docagent_rl.lab.viewer.images import thumbnail, trajectory_image
from docagent_rl.lab.viewer.queries import Pair, whole
from docagent_rl.lab.viewer.runs import OpenRun
from docagent_rl.lab.viewer.steps import read_curves, step_warnings
from docagent_rl.lab.viewer.trajectory import trajectory_view

JSON = "application/json"


class Reply(NamedTuple):
    """The answer to a request."""

    content: bytes
    type: str = JSON
    lasting: bool = False
    """True if the same address always has the same answer, so that it can be cached."""


class Api:
    """Answers requests about the runs given on the command line."""

    def __init__(self, runs: Sequence[OpenRun]) -> None:
        self.runs = list(runs)

    def answer(self, path: str, query: str = "") -> Reply:
        """Return the answer for a path, percent-encoded or not; `query` is what follows a question
        mark.

        Raises:
            UserError: there is nothing with that name, or a parameter is invalid.
        """
        pairs = parse_qsl(query, keep_blank_values=True)
        if path == "/api/runs":
            return as_json({"runs": [run.described() for run in self.runs]})
        if path == "/api/compare":
            options = dict(pairs)
            runs = [self._run(options.get(side, "")) for side in ("a", "b")]
            steps = [
                whole(options[name], name) if options.get(name) else None
                for name in ("step_a", "step_b")
            ]
            split = options.get("split") or "val"
            measure = options.get("measure") or "reward"
            return as_json(comparison(runs, split, measure, steps))
        if found := re.fullmatch("/api/runs/([^/]+)/(.+)", path):
            run = self._run(found[1])
            for pattern, handler in _ROUTES.items():
                if match := re.fullmatch(pattern, found[2]):
                    return handler(run, pairs, *map(unquote, match.groups()))
        raise UserError(f"there is nothing at {path}")

    def _run(self, number: str) -> OpenRun:
        place = whole(number, "run")
        if place >= len(self.runs):
            raise UserError(f"there is no run {place}")
        return self.runs[place]


def as_json(content: Any) -> Reply:
    """Return an answer as JSON; values that JSON cannot express, such as NaN, become null."""
    return Reply(orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY))


def _of_index(answer: Callable[[sqlite3.Connection, Sequence[Pair]], Any]) -> Callable[..., Reply]:
    def handler(run: OpenRun, pairs: Sequence[Pair]) -> Reply:
        with run.index() as base:
            return as_json(answer(base, pairs))

    return handler


def _trajectory(run: OpenRun, pairs: Sequence[Pair], number: str) -> Reply:
    return as_json(_viewed(run, whole(number, "trajectory")))


def _viewed(run: OpenRun, number: int, *, tokens: bool = True) -> dict[str, Any]:
    trajectory = run.trajectory(number)
    place = int(trajectory["step"]), str(trajectory["uid"]), int(trajectory["number"])
    # a validation has no credit; a file with its step number belongs to the training step
    trained = trajectory.get("split") == "train"
    credit = trajectory_credit(run.folder.path, *place) if trained else None
    view = trajectory_view(
        trajectory, store=run.store, tokenizer=run.tokenizer, credit=credit, tokens=tokens
    )
    reward = run.folder.reward
    view["formula"] = (
        reward.described() if reward is not None and reward.system == view["system"] else None
    )
    return view


def _image(run: OpenRun, pairs: Sequence[Pair], trajectory: str, number: str) -> Reply:
    recorded = run.trajectory(whole(trajectory, "trajectory"))
    return Reply(*trajectory_image(recorded, whole(number, "image"), run.store), lasting=True)


def _page(run: OpenRun, pairs: Sequence[Pair], doc_id: str, page: str) -> Reply:
    width = whole(dict(pairs).get("width", "160"), "width")
    return Reply(*thumbnail(run.store, doc_id, whole(page, "page"), width), lasting=True)


def _group(run: OpenRun, pairs: Sequence[Pair], uid: str) -> Reply:
    with run.index() as base:
        ids = queries.group_ids(base, uid, dict(pairs))
    found = [_viewed(run, number, tokens=False) for number in ids]
    sample = found[0]["sample"]
    gold = sample.get("answers") or []
    return as_json({"question": sample.get("question"), "gold": gold, "trajectories": found})


def _metrics(run: OpenRun, pairs: Sequence[Pair]) -> Reply:
    return as_json(read_curves(run.folder.path))


def _warnings(run: OpenRun, pairs: Sequence[Pair]) -> Reply:
    with run.index() as base:
        found = [
            *run.file_warnings.warnings(),
            *(each for split in ("train", "val") for each in step_warnings(base, split)),
        ]
    return as_json([each._asdict() for each in found])


_ROUTES: dict[str, Callable[..., Reply]] = {
    "trajectories": _of_index(queries.trajectories),
    "facets": _of_index(queries.facets),
    "trajectories/([^/]*)": _trajectory,
    "trajectories/([^/]*)/images/([^/]*)": _image,
    "pages/([^/]*)/([^/]*)": _page,
    "groups/([^/]*)": _group,
    "funnel": _of_index(funnel),
    "metrics": _metrics,
    "warnings": _warnings,
}
"""Handlers for the addresses of a run; they take the run, the parameters, and names from the path.
"""
