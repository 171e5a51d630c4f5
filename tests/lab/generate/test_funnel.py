from __future__ import annotations

import hashlib
import json

from docagent_rl.lab.generate.config import Difficulty, Kind
from docagent_rl.lab.generate.draft import OUTAGES, Dropped, Stage
from docagent_rl.lab.generate.funnel import Funnel
from docagent_rl.lab.generate.plan import Slot


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
