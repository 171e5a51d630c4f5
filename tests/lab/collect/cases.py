"""Cases with only the facts that a test is about."""

from docagent_rl.envs.outcome import Outcome
from docagent_rl.lab.collect.case import Case


def case(question="q", number=0, **changes) -> Case:
    fields = {
        "question": question,
        "number": number,
        "dataset": "made",
        "finished": True,
        "sound": True,
        "prediction": "blue",
        "references": ("blue",),
        "refusal": False,
        "listing": False,
        "gold": frozenset({"d#3"}),
        "shown": frozenset({"d#3"}),
        "listed": frozenset({"d#3"}),
        "actions": ("search", "answer"),
        "images": 1,
        "digest": f"{question} {number}",
        "reward": 1.0,
        "outcome": Outcome.of(1.0),
    }
    return Case(**{**fields, **changes})
