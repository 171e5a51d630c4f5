"""The rows of a recorded trajectory in the tables of its run; pure functions of one line of a file.

What a trajectory came to (stage, outcome, drift, ...) is what the viewer's index has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from docagent_rl.envs.recorded import mapping
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.lab.viewer.features import features_of, number
from docagent_rl.rollout.seen_pages import PlayedTurn, gold_pages, images_of, records_of

Row = dict[str, Any]

_REWARD = "reward/"
_OR_NULL = ("answer", "stage", "branch", "outcome")
"""Features that are empty in the viewer's index if they do not apply."""


def row_of_trajectory(trajectory: Mapping[str, Any]) -> Row:
    """Return the row of a trajectory.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is not a trajectory.
    """
    features = features_of(trajectory)
    sample = trajectory["sample"]
    metrics = mapping(trajectory.get("metrics"))
    return {
        **features,
        **{name: features[name] or None for name in _OR_NULL},
        "question": sample.get("question"),
        "gold_pages": sorted(gold_pages(sample)),
        "error": trajectory.get("error"),
        "attempts": trajectory.get("attempts"),
        "score": mapping(trajectory.get("outcome")).get("score"),
        "well_formed": trajectory.get("well_formed"),
        "prompt_tokens": trajectory.get("prompt_tokens"),
        "response_tokens": trajectory.get("response_tokens"),
        "metrics": [(name, number(value)) for name, value in metrics.items()],
    }


def turn_rows(trajectory: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of its turns, in order; raises as `row_of_trajectory`."""
    records = records_of(trajectory)
    for place, (turn, record) in enumerate(zip(trajectory["turns"], records, strict=True)):
        yield {**_key(trajectory), "turn": place + 1, **_turn(turn, record, place)}


def _turn(turn: Mapping[str, Any], record: TurnRecord, place: int) -> Row:
    played = PlayedTurn.of(turn, record)
    arguments = dict(record.action.arguments)
    return {
        "row": turn.get("row", 0),
        "text": turn["text"],
        "stop": turn["stop"],
        "action": record.action.kind,
        "arguments": json.dumps(arguments, ensure_ascii=False),
        "valid": record.valid,
        "reason": record.reason,
        "executed": record.executed,
        "surplus": len(record.surplus),
        "effect": record.effect.kind,
        "found": list(dict.fromkeys(played.found)),
        "shown": list(dict.fromkeys(each.page for each in played.seen_pages(place))),
        "searches": len(played.searches),
        "reward": turn.get("reward"),
        "sampled_tokens": len(turn["token_ids"]) or turn.get("completion_tokens", 0),
        "observation_tokens": turn.get("observation_tokens"),
        "images": sum(1 for _ in images_of(turn.get("observation"))),
        "dropped": bool(turn.get("dropped")),
        "seconds": list(mapping(turn.get("seconds")).items()),
    }


def term_rows(trajectory: Mapping[str, Any], weights: Mapping[str, float]) -> Iterator[Row]:
    """Yield the rows of its reward terms: those of the whole trajectory, then those of each turn.

    `weights` are the weights of terms by name, as far as they are known.
    """
    key = _key(trajectory)

    def row(term: str, value: Any, **place: int) -> Row:
        return {**key, "term": term, "value": number(value), "weight": weights.get(term), **place}

    for name, value in mapping(trajectory.get("metrics")).items():
        if name.startswith(_REWARD):
            yield row(name.removeprefix(_REWARD), value)
    for place, turn in enumerate(trajectory["turns"], 1):
        for name, value in mapping(turn.get("terms")).items():
            yield row(name, value, turn=place)
        for name, first, last, value in turn.get("token_terms") or ():
            yield row(name, value, turn=place, first=first, last=last)


def token_rows(trajectory: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row with the lists over sampled tokens for each turn, in order."""
    for place, turn in enumerate(trajectory["turns"], 1):
        yield {
            **_key(trajectory),
            "turn": place,
            "row": turn.get("row", 0),
            "token_ids": turn["token_ids"],
            "log_probs": turn["log_probs"],
            "trainer_log_probs": turn.get("trainer_log_probs"),
        }


def score_rows(scored: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each number of a line of `scores.jsonl`."""
    key = {name: scored[name] for name in ("question_id", "number", "dataset")}
    for name, value in scored["values"].items():
        yield {**key, "score": name, "value": value}


def _key(trajectory: Mapping[str, Any]) -> Row:
    return {name: trajectory[name] for name in ("split", "step", "uid", "number")}
