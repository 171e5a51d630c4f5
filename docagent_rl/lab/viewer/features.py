"""A recorded trajectory as a row of the index: everything that lists, filters and counts need."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from docagent_rl.actions.base import StopCause
from docagent_rl.base.text import one_line
from docagent_rl.rollout.evidence import evidence_of
from docagent_rl.rollout.seen_pages import answer_in, images_of, records_of

_LONGEST_QUESTION = 200
"""Length of a question in a list, in characters."""
_TERM = "reward/"


def features_of(trajectory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the index row for a line of a trajectory file: its columns, and `text` for searching.

    Stage, reach, outcome and branch are those of `docagent_rl.rollout.evidence`, empty or `None`
    if they do not apply.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is not a trajectory.
    """
    sample = trajectory["sample"]
    turns = trajectory["turns"]
    end = str(trajectory.get("end") or "")
    shown = [
        trajectory.get("prompt"),
        *(t.get("observation") for t in turns if not t.get("dropped")),
    ]
    records = records_of(trajectory)
    question = str(sample.get("question") or "")
    answer = answer_in(records)
    gold = [str(each) for each in sample.get("answers") or ()]
    evidence = evidence_of(trajectory, records)
    metrics = trajectory.get("metrics") or {}
    terms = {
        name.removeprefix(_TERM): number(v) for name, v in metrics.items() if name.startswith(_TERM)
    }
    return {
        "id": trajectory_id(trajectory),
        "step": int(trajectory["step"]),
        "split": str(trajectory["split"]),
        "system": str(trajectory["system"]),
        "dataset": one_line(str(sample.get("dataset") or "")),
        "question_id": one_line(str(sample.get("question_id") or "")),
        "question": question[:_LONGEST_QUESTION],
        "doc_id": one_line(str(sample.get("doc_id") or "")),
        "uid": str(trajectory["uid"]),
        "number": int(trajectory["number"]),
        "status": str(trajectory["status"]),
        "end": end,
        "mask": end if trajectory["status"] == "masked" else "",
        "reward": number(trajectory.get("reward")),
        "terms": {name: value for name, value in terms.items() if value is not None},
        "turns": len(turns),
        "invalid": sum(not record.valid for record in records),
        "tokens": int(trajectory.get("prompt_tokens") or 0)
        + int(trajectory.get("response_tokens") or 0),
        "images": sum(1 for messages in shown for _ in images_of(messages)),
        "answer": answer,
        "gold": gold,
        "evidence_kind": ", ".join(
            sorted({str(kind) for kind in sample.get("evidence_sources") or ()})
        ),
        "stage": evidence.stage.value if evidence.stage else "",
        "reach": evidence.reach,
        "outcome": evidence.outcome.value if evidence.outcome else "",
        "guessed": evidence.guessed,
        "branch": evidence.branch or "",
        "seconds": sum(
            (number(s) or 0.0 for turn in turns for s in turn.get("seconds", {}).values()), 0.0
        ),
        "drift": _drift(turns),
        "truncated": end == "context_full"
        or any(t.get("stop") == StopCause.TRUNCATED.value for t in turns),
        "text": "\n".join(
            [question, *gold, str(answer or ""), *(str(turn.get("text") or "") for turn in turns)]
        ),
    }


def trajectory_id(trajectory: Mapping[str, Any]) -> int:
    """Return an id of a trajectory that stays the same when its file is written again: 48 bits of a
    hash.
    """
    name = "\0".join(str(trajectory[key]) for key in ("split", "step", "uid", "number"))
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:6], "big")


def number(value: Any) -> float | None:
    """Return a finite number, or `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _drift(turns: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the mean absolute difference between the log-probs of the server and of the
    trainer.
    """
    pairs = (
        (number(server), number(trainer))
        for turn in turns
        for server, trainer in zip(
            turn.get("log_probs") or (), turn.get("trainer_log_probs") or (), strict=False
        )
    )
    found = [abs(one - other) for one, other in pairs if one is not None and other is not None]
    return fmean(found) if found else None
