from __future__ import annotations

import hashlib
import json

import pytest

from docagent_rl.endpoints.endpoint import Price
from docagent_rl.lab.generate.config import Difficulty, Kind
from docagent_rl.lab.generate.draft import OUTAGES, Draft, Dropped, Stage
from docagent_rl.lab.generate.forecast import Line, forecast_table
from docagent_rl.lab.generate.funnel import Funnel
from docagent_rl.lab.generate.plan import Gap, Slot


def full() -> Funnel:
    """Every kind of question, dropped at every stage."""
    slots = [Slot("K", kind, Difficulty.EASY, 0, (1,), 20) for kind in Kind]
    drafts = [Draft(slot, row, f"What is {row}?", "x", (1,)) for slot in slots for row in range(len(Stage))]
    stages = [*Stage] * len(slots)
    dropped = [
        Dropped(each.slot, stage, "[b]why[/b]", each) for each, stage in zip(drafts, stages, strict=True)
    ]
    return Funnel(slots * 150, drafts, dropped, drafts[:1], [Gap("K", Kind.CHART, "no figure")])


def test_the_file_has_every_reason():
    data = json.loads(full().to_json("digest"))
    assert data["settings"] == "digest"
    assert data["counts"]["requests for questions"] == dict.fromkeys(Kind, 150)
    assert {each["stage"] for each in data["dropped"]} == set(Stage)
    assert data["dropped"][0]["question"] == "What is 0?"
    assert data["gaps"] == [{"doc_id": "K", "kind": "chart", "why": "no figure"}]


def test_only_where_something_is_to_be_asked_again_the_written_file_is_noted():
    slot = Slot("K", Kind.TABLE, Difficulty.EASY, 0, (1,), 1)
    often = Dropped(slot, Stage.DECLINED, "b")
    assert Funnel(dropped=[Dropped(slot, Stage.SHAPE, "a"), often, often]).commonest().startswith("2 ")
    whole = Funnel([slot], dropped=[often])
    assert "unanswered" not in json.loads(whole.to_json("digest", "text"))
    lacking = Funnel([slot, slot], dropped=[Dropped(slot, stage, "c") for stage in OUTAGES])
    assert json.loads(lacking.to_json("digest", "text"))["unanswered"] == {
        "count": 2,
        "sha256": hashlib.sha256(b"text").hexdigest(),
    }


@pytest.mark.parametrize(
    ("price", "judge", "costs"),
    [
        (Price(input=1, output=10), Price(input=3, output=0), ["2.0000", "1.5000", "3.5000"]),
        (Price(input=1, output=10), Price(), ["2.0000", "-", "2.0000"]),
        (Price(), Price(), ["-", "-", "-"]),
    ],
)
def test_each_step_costs_what_its_model_costs(price, judge, costs):
    steps = {"write questions": Line(2, 1_000_000, 100_000), "compare answers": Line(4, 500_000, 0)}
    assert list(forecast_table(steps, price, judge).columns[-1].cells) == costs
