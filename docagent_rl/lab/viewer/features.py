"""A recorded trajectory as one row of the index: all that lists, filters and counts need. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
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
    """One trajectory; fields of the same names are those of `Trajectory`.

    Args:
        id: see `trajectory_id`.
        mask: why it is masked; empty where it is not.
        terms: its reward terms by name.
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
    number: int
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


def features_of(trajectory: Mapping[str, Any]) -> Features:
    """Return the row of a line of a trajectory file.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is no trajectory.
    """
    sample, turns, end = trajectory["sample"], trajectory["turns"], str(trajectory.get("end") or "")
    messages = [trajectory.get("prompt"), *(t.get("observation") for t in turns if not t.get("dropped"))]
    evidence = evidence_of(trajectory)
    searches = [search for turn in turns for search in turn.get("searches") or ()]
    return Features(
        id=trajectory_id(trajectory),
        step=int(trajectory["step"]),
        split=str(trajectory["split"]),
        system=str(trajectory["system"]),
        dataset=one_line(str(sample.get("dataset") or "")),
        question_id=one_line(str(sample.get("question_id") or "")),
        question=str(sample.get("question") or "")[:LONGEST_QUESTION],
        doc_id=one_line(str(sample.get("doc_id") or "")),
        uid=str(trajectory["uid"]),
        number=int(trajectory["number"]),
        status=str(trajectory["status"]),
        end=end,
        mask=end if trajectory["status"] == "masked" else "",
        reward=number(trajectory.get("reward")),
        terms=_terms(trajectory.get("metrics") or {}),
        turns=len(turns),
        invalid=sum(turn.get("info", {}).get("valid") is False for turn in turns),
        tokens=int(trajectory.get("prompt_tokens") or 0) + int(trajectory.get("response_tokens") or 0),
        images=sum(1 for each in messages for _ in images_of(each)),
        answer=answer_of(trajectory),
        gold=[str(answer) for answer in sample.get("answers") or ()],
        evidence_kind=", ".join(sorted({str(kind) for kind in sample.get("evidence_sources") or ()})),
        stage=evidence.stage.value if evidence.stage else "",
        reach=evidence.reach,
        right=evidence.right,
        guessed=evidence.guessed,
        branch=evidence.branch or "",
        seconds=sum((number(s) or 0.0 for turn in turns for s in turn.get("seconds", {}).values()), 0.0),
        drift=_drift(turns),
        truncated=end == "context_full" or any(t.get("stop") == StopCause.TRUNCATED.value for t in turns),
        search_k=max((int(search.get("top_k") or 0) for search in searches), default=None),
        search_within=any(search.get("doc_id") for search in searches) if searches else None,
        text="\n".join(_texts(trajectory)),
    )


def trajectory_id(trajectory: Mapping[str, Any]) -> int:
    """Return a number of a trajectory that stays when its file is written again: 48 bits of a hash."""
    name = "\0".join(str(trajectory[key]) for key in ("split", "step", "uid", "number"))
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:6], "big")


def number(value: Any) -> float | None:
    """Return a finite number; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _terms(metrics: Mapping[str, Any]) -> dict[str, float]:
    found = {name.removeprefix(_TERM): number(v) for name, v in metrics.items() if name.startswith(_TERM)}
    return {name: value for name, value in found.items() if value is not None}


def _drift(turns: Sequence[Mapping[str, Any]]) -> float | None:
    known = [turn for turn in turns if turn.get("trainer_log_probs") is not None]
    pairs = [
        pair
        for turn in known
        for pair in zip(turn.get("log_probs") or (), turn["trainer_log_probs"], strict=False)
    ]
    total = sum(abs(ours - theirs) for ours, theirs in pairs)
    return total / len(pairs) if pairs and math.isfinite(total) else None


def _texts(trajectory: Mapping[str, Any]) -> Iterator[str]:
    sample = trajectory["sample"]
    yield str(sample.get("question") or "")
    yield from (str(answer) for answer in sample.get("answers") or ())
    yield str(answer_of(trajectory) or "")
    yield from (str(turn.get("text") or "") for turn in trajectory["turns"])
