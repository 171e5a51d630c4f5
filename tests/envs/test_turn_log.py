from __future__ import annotations

import json

from docagent_rl.actions.base import (
    Answer,
    Crop,
    Fetch,
    Finish,
    Invalid,
    InvalidReason,
    ParsedTurn,
    Read,
    Search,
    Select,
)
from docagent_rl.actions.grammar import bad_argument
from docagent_rl.envs.turn_log import LoggedTurn, TurnLog, describe_action

SPANS = ((0, 9), (2, 7))
ACTIONS = [
    Search(*SPANS, "q"),
    Fetch(*SPANS, (1, 2)),
    Select(*SPANS, (1,)),
    Crop(*SPANS, ((1.0, 2.0, 3.0, 4.0),)),
    Read(*SPANS, (3,), "why"),
    Answer(*SPANS, "a"),
    Finish(None, None),
    Invalid(None, None, InvalidReason.UNCLOSED, "open"),
]


def test_every_action_can_be_written_down():
    described = [describe_action(action) for action in ACTIONS]
    assert json.loads(json.dumps(described)) == described
    assert [entry["kind"] for entry in described] == [
        "search", "fetch", "select", "crop", "read", "answer", "finish", "invalid",
    ]  # fmt: skip
    assert described[3]["boxes"] == [[1.0, 2.0, 3.0, 4.0]]
    assert described[7] == {"kind": "invalid", "block": None, "argument": None, "reason": "unclosed"}


def test_counts():
    crop = ACTIONS[3]
    log = TurnLog(
        [
            LoggedTurn(1, ParsedTurn(ACTIONS[0], surplus=(crop, crop)), image_tokens=5),
            LoggedTurn(2, ParsedTurn(crop), refused=bad_argument("off", *SPANS)),
            LoggedTurn(3, ParsedTurn(ACTIONS[7])),
            LoggedTurn(4, ParsedTurn(ACTIONS[0]), image_tokens=7, dropped=True),
            LoggedTurn(5, ParsedTurn(ACTIONS[0]), executed=False),
        ]
    )
    metrics = log.metrics()
    assert (log.ran(Search), log.ran(Crop)) == (2, 0)
    counted = {
        "turns": 5, "invalid_actions": 2, "invalid_action_rate": 0.4, "invalid/bad_argument": 1,
        "invalid/unclosed": 1, "surplus_actions": 2, "image_tokens": 5,
    }  # fmt: skip
    assert {name: metrics[name] for name in counted} == counted
    assert set(TurnLog().metrics()) == set(metrics)
    assert all(isinstance(value, float) for value in metrics.values())
