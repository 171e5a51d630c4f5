from __future__ import annotations

import random

from docagent_rl.documents import PageRef
from docagent_rl.envs.script import AgentState
from docagent_rl.samples.sample import Sample, Split


def test_boxes_are_known_in_all_documents_of_a_question():
    boxes, extra = {3: ((0.1, 0.2, 0.5, 0.6),)}, {"other_boxes": {"M#2": [[0.0, 0.0, 1.0, 0.5]]}}
    sample = Sample("q", "made", Split.TRAIN, "K", "What?", ("1",), evidence_boxes=boxes, extra=extra)
    state = AgentState(sample, store=None, turns=3, rng=random.Random(0))
    assert state.boxes(PageRef("K", 3)) == boxes[3]
    assert state.boxes(PageRef("M", 2)) == ((0.0, 0.0, 1.0, 0.5),)
    assert state.boxes(PageRef("M", 3)) == state.boxes(PageRef("K", 2)) == ()
