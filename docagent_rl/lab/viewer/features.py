"""A recorded session as one row: all that lists, filters and counts need. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.base.terminal import one_line
from docagent_rl.rollout.evidence import answer_of, evidence_of, images_of

LONGEST_QUESTION = 200
"""Characters of a question in a list."""
_TERM = "reward/"


@dataclass(frozen=True, slots=True)
class Features:
    """One session; fields of the same names are those of `Trajectory`.

    Args:
        id: of the session, the same whenever its run is indexed (`session_id`).
        mask: why it is masked; empty where it is not.
        terms: the session's reward terms by name.
        turns: their number.
        invalid: turns whose action was invalid.
        tokens: of prompt and response.
        images: of prompt and observations that entered the context.
        gold: the right answers.
        evidence_kind: where the evidence stands, in the benchmark's words.
        stage: see `docagent_rl.rollout.evidence`, as for the branch; empty where it means nothing.
        seconds: wall time of its turns.
        drift: mean absolute difference of the server's and the trainer's log-probs.
        truncated: a turn was cut, or the context was full.
        search_k: the most hits that a search asked for; `None` without a search.
        search_within: whether searches were in one document.
        text: what a search goes through: question, answers, turns.
    """

    id: int
    step: int
    split: str
    system: str
    dataset: str
    question_id: str
    question: str
    doc_id: str
    uid: str
    session: int
    status: str
    end: str
    mask: str
    reward: float | None
    terms: dict[str, float]
    turns: int
    invalid: int
    tokens: int
    images: int
    answer: str | None
    gold: list[str]
    evidence_kind: str
    stage: str
    reach: bool | None
    right: bool | None
    guessed: bool
    branch: str
    seconds: float
    drift: float | None
    truncated: bool
    search_k: int | None
    search_within: bool | None
    text: str = field(repr=False)


def features_of(session: Mapping[str, Any]) -> Features:
    """The row of a session.

    Args:
        session: a line of a trajectory file, parsed.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is no session.
    """
    record = session["record"]
    turns = session["turns"]
    seen = [turn for turn in turns if not turn.get("dropped")]
    found = evidence_of(session)
    masked = session["status"] == "masked"
    searches = [search for turn in turns for search in turn.get("searches") or ()]
    return Features(
        id=session_id(session),
        step=int(session["step"]),
        split=str(session["split"]),
        system=str(session["system"]),
        dataset=one_line(str(record.get("dataset") or "")),
        question_id=one_line(str(record.get("question_id") or "")),
        question=str(record.get("question") or "")[:LONGEST_QUESTION],
        doc_id=one_line(str(record.get("doc_id") or "")),
        uid=str(session["uid"]),
        session=int(session["session"]),
        status=str(session["status"]),
        end=str(session.get("end") or ""),
        mask=str(session.get("end") or "") if masked else "",
        reward=number(session.get("reward")),
        terms=terms_of(session),
        turns=len(turns),
        invalid=sum(turn.get("info", {}).get("valid") is False for turn in turns),
        tokens=int(session.get("prompt_tokens") or 0) + int(session.get("response_tokens") or 0),
        images=sum(1 for _ in images_of(session.get("prompt")))
        + sum(1 for turn in seen for _ in images_of(turn.get("observation"))),
        answer=answer_of(session),
        gold=[str(answer) for answer in record.get("answers") or ()],
        evidence_kind=", ".join(sorted({str(kind) for kind in record.get("evidence_sources") or ()})),
        stage=found.stage.value if found.stage else "",
        reach=found.reach,
        right=found.right,
        guessed=found.guessed,
        branch=found.branch or "",
        seconds=sum(number(each) or 0.0 for turn in turns for each in turn.get("seconds", {}).values()),
        drift=_drift(turns),
        truncated=session.get("end") == "context_full"
        or any(t.get("stop") == StopCause.TRUNCATED.value for t in turns),
        search_k=max((int(search.get("top_k") or 0) for search in searches), default=None),
        search_within=any(search.get("doc_id") for search in searches) if searches else None,
        text="\n".join(_texts(session)),
    )


def session_id(session: Mapping[str, Any]) -> int:
    """A number for a session that stays when its file is written again: 48 bits of a hash."""
    name = "\0".join(str(session[key]) for key in ("split", "step", "uid", "session"))
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:6], "big")


def terms_of(session: Mapping[str, Any]) -> dict[str, float]:
    """The reward terms among a session's numbers."""
    metrics = session.get("metrics") or {}
    found = ((name.removeprefix(_TERM), number(v)) for name, v in metrics.items() if name.startswith(_TERM))
    return {name: value for name, value in found if value is not None}


def number(value: Any) -> float | None:
    """A finite number, or none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _drift(turns: list[Mapping[str, Any]]) -> float | None:
    total, count = 0.0, 0
    for turn in turns:
        theirs = turn.get("trainer_log_probs")
        if theirs is None:
            continue
        for ours, other in zip(turn.get("log_probs") or (), theirs, strict=False):
            total += abs(ours - other)
            count += 1
    return total / count if count and math.isfinite(total) else None


def _texts(session: Mapping[str, Any]) -> Iterator[str]:
    record = session["record"]
    yield str(record.get("question") or "")
    yield from (str(answer) for answer in record.get("answers") or ())
    yield str(answer_of(session) or "")
    yield from (str(turn.get("text") or "") for turn in session["turns"])
