"""What the page asks for, by address. The same answers go into an exported file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer import queries
from docagent_rl.lab.viewer.aggregates import step_numbers
from docagent_rl.lab.viewer.comparison import comparison
from docagent_rl.lab.viewer.credit import baseline, session_credit
from docagent_rl.lab.viewer.curves import described, read_curves
from docagent_rl.lab.viewer.filters import Pair, read_pairs
from docagent_rl.lab.viewer.funnel import funnel
from docagent_rl.lab.viewer.images import session_image, thumbnail
from docagent_rl.lab.viewer.replies import encoded
from docagent_rl.lab.viewer.runs import OpenRun
from docagent_rl.lab.viewer.session import session_view
from docagent_rl.lab.viewer.warnings import findings

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Args:
        content: its bytes.
        type: what they are.
        lasting: the same address always has the same answer.
    """

    content: bytes
    type: str = JSON
    lasting: bool = False


Handler = Callable[["OpenRun", Sequence[str], Sequence[Pair]], Reply]


class Api:
    """The runs that are looked at.

    Args:
        runs: in the order of the command line.
        version: of the package.
    """

    def __init__(self, runs: Sequence[OpenRun], version: str = "") -> None:
        self.runs = list(runs)
        self._version = version

    def answer(self, path: str, query: str = "") -> Reply:
        """The answer to an address.

        Args:
            path: `/api/...`, percent-encoded or not.
            query: what follows its question mark.

        Raises:
            UserError: there is nothing of that name, or a parameter means nothing.
        """
        pairs = read_pairs(query)
        if path == "/api/runs":
            return told({"version": self._version, "runs": [run.described() for run in self.runs]})
        if path == "/api/compare":
            return self._compare(dict(pairs))
        for pattern, handler in _ROUTES:
            if found := pattern.fullmatch(path):
                number, *rest = found.groups()
                return handler(self.run(number), [unquote(each) for each in rest], pairs)
        raise UserError(f"there is nothing at {path}")

    def _compare(self, options: Mapping[str, str]) -> Reply:
        split, measure = options.get("split") or "val", options.get("measure") or "reward"
        runs = [self.run(options.get(side, "")) for side in ("a", "b")]
        steps = [_whole(step) if (step := options.get(f"step_{side}")) else None for side in ("a", "b")]
        return told(comparison(runs, split, measure, steps))

    def run(self, number: str) -> OpenRun:
        """A run by its number.

        Raises:
            UserError: there is none.
        """
        if not (number.isascii() and number.isdecimal()) or len(number) > 6 or int(number) >= len(self.runs):
            raise UserError(f"no run {number}")
        return self.runs[int(number)]


def told(content: Any) -> Reply:
    """An answer in JSON."""
    return Reply(encoded(content))


def _sessions(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    with run.index() as base:
        found = queries.sessions(base, pairs)
    return told({"total": found.total, "rows": found.rows})


def _facets(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    with run.index() as base:
        return told(queries.facets(base, pairs))


def _session(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    return told(_viewed(run, run.session(_whole(names[0]))))


def _viewed(run: OpenRun, session: Mapping[str, Any], *, tokens: bool = True) -> dict[str, Any]:
    uid, step, number = str(session["uid"]), int(session["step"]), int(session["session"])
    # a validation has none: what lies there is that of the step of its number
    trained = session.get("split") == "train"
    credit = session_credit(run.folder.path, step, uid, number) if trained else None
    view = session_view(
        session, run=run.number, store=run.store, tokenizer=run.tokenizer, credit=credit, tokens=tokens
    )
    if credit is not None:
        with run.index() as base:
            rewards = queries.group_rewards(base, uid, step)
        compared_with = baseline(
            credit.estimator, run.folder.estimator_options, view["advantage"], rewards, number
        )
        view["credit"]["baseline"] = compared_with
    reward = run.folder.reward
    formula = reward.described() if reward is not None and reward.system == view["system"] else None
    return {**view, "stage": run.stage(view["id"]), "formula": formula}


def _image(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    content, kind = session_image(run.session(_whole(names[0])), _whole(names[1]), run.store)
    return Reply(content, kind, lasting=True)


def _page(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    width = _whole(dict(pairs).get("width", "160"))
    content, kind = thumbnail(run.store, names[0], _whole(names[1]), width)
    return Reply(content, kind, lasting=True)


def _group(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    options = dict(pairs)
    step = _whole(options["step"]) if options.get("step") else None
    with run.index() as base:
        ids = queries.group_ids(base, names[0], step, options.get("split") or None)
    found = [_viewed(run, run.session(number), tokens=False) for number in ids]
    record = found[0]["record"]
    return told(
        {
            "question": record.get("question"),
            "gold": record.get("answers") or [],
            "sessions": found,
            "advantage": [each["advantage"] for each in found],
        }
    )


def _funnel(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    with run.index() as base:
        return told(funnel(base, pairs))


def _metrics(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    return told(described(read_curves(run.folder.path)))


def _warnings(run: OpenRun, names: Sequence[str], pairs: Sequence[Pair]) -> Reply:
    curves = read_curves(run.folder.path)
    with run.index() as base:
        steps = {split: step_numbers(base, split) for split in ("train", "val")}
    found = [each for split in steps for each in findings(steps[split], split, curves[split].values)]
    return told([each.described() for each in found])


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise UserError(f"{text!r} is no number")
    return int(text)


_ROUTES: tuple[tuple[re.Pattern[str], Handler], ...] = (
    (re.compile(r"/api/runs/([^/]+)/sessions"), _sessions),
    (re.compile(r"/api/runs/([^/]+)/facets"), _facets),
    (re.compile(r"/api/runs/([^/]+)/sessions/([^/]+)"), _session),
    (re.compile(r"/api/runs/([^/]+)/sessions/([^/]+)/images/([^/]+)"), _image),
    (re.compile(r"/api/runs/([^/]+)/pages/([^/]+)/([^/]+)"), _page),
    (re.compile(r"/api/runs/([^/]+)/groups/([^/]+)"), _group),
    (re.compile(r"/api/runs/([^/]+)/funnel"), _funnel),
    (re.compile(r"/api/runs/([^/]+)/metrics"), _metrics),
    (re.compile(r"/api/runs/([^/]+)/warnings"), _warnings),
)
