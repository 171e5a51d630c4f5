"""What an answer rests on."""

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.eval.ask.answer import Why, answered, turn_pages
from docagent_rl.play.player import new_trajectory
from docagent_rl.records.record import Record, Split
from docagent_rl.rollout.trajectory import MaskReason, Status, TrajectoryTurn

SAMPLE = Record("q", "ask", Split.TEST, "d", "Where?", ("x",))
SAY = {"action": {"kind": "answer", "text": "there"}, "executed": True, "effect": {"kind": "answer"}}


def session(*infos, system="vrag_rl", dropped=()):
    trajectory = new_trajectory(SAMPLE, 0, system)
    trajectory.status = Status.FINISHED.value
    for number, info in enumerate(infos):
        trajectory.turns.append(
            TrajectoryTurn("t", "end_of_turn", [], [], info=info, dropped=number in dropped)
        )
    return trajectory


def pages(*numbers):
    shown = [{"page": f"d#{number}"} for number in numbers]
    return {"action": {"kind": "search"}, "executed": True, "effect": {"kind": "pages", "pages": shown}}


def crop(page, *region):
    effect = {"kind": "crop", "page": f"d#{page}", "region": list(region)}
    return {"action": {"kind": "crop"}, "executed": True, "effect": effect}


def test_an_answer_rests_on_the_pages_shown_last():
    found = answered(session(pages(4), pages(7, 8), SAY))
    assert found.text == "there"
    assert [(each.page, each.why) for each in found.evidence] == [
        (PageRef("d", 7), Why.SHOWN),
        (PageRef("d", 8), Why.SHOWN),
    ]


def test_magnified_parts_tell_more_than_pages_and_the_last_most():
    found = answered(
        session(
            pages(4), crop(4, 0, 0, 0.5, 0.5), crop(4, 0.1, 0.2, 0.3, 0.4), pages(9), crop(9, 0, 0, 1, 1), SAY
        )
    )
    assert [(each.page.page, each.why, len(each.regions)) for each in found.evidence] == [
        (9, Why.MAGNIFIED, 1),
        (4, Why.MAGNIFIED, 2),
    ]
    assert found.evidence[1].regions[1] == (0.1, 0.2, 0.3, 0.4)


def test_a_stack_of_regions_is_several_of_them():
    regions = [[0.1, 0.2, 0.3, 0.4], [0, 0, "x", 1], [0.5, 0.5, 1, 1]]
    effect = {"kind": "crop", "page": "d#4", "regions": regions}
    stack = {"action": {"kind": "crop"}, "executed": True, "effect": effect}
    (found,) = answered(session(pages(4), stack, SAY, system="unidoc_rl")).evidence
    assert (found.page, found.why) == (PageRef("d", 4), Why.MAGNIFIED)
    assert found.regions == ((0.1, 0.2, 0.3, 0.4), (0.5, 0.5, 1.0, 1.0))


def test_cited_pages_come_before_all():
    cites = {**SAY, "relevant_pages": [2, 3]}
    found = answered(session(pages(4), cites, system="doc_v_star"))
    assert [(each.page.page, each.why) for each in found.evidence] == [(2, Why.CITED), (3, Why.CITED)]


def test_what_did_not_fit_was_not_seen():
    found = answered(session(pages(4), pages(7), SAY, dropped={1}))
    assert [each.page.page for each in found.evidence] == [4]


def test_a_session_without_an_answer_says_why():
    ended = session(pages(4))
    ended.status, ended.end = Status.UNFINISHED.value, "turn_limit"
    assert "turn_limit" in answered(ended).why_not
    masked = session()
    masked.status, masked.end, masked.error = Status.MASKED.value, MaskReason.SAMPLE.value, "too long"
    assert (answered(masked).text, answered(masked).why_not) == (None, "too long")


@pytest.mark.parametrize(
    "effect", [None, 3, {"pages": 3}, {"pages": [None, {"page": 3}, {"page": "x"}]}, {"page": "d#0"}]
)
def test_strange_records_are_read(effect):
    assert turn_pages({"effect": effect}) == []
    strange = {
        "action": {"kind": "crop"},
        "effect": {"kind": "crop", "page": "d#1", "region": [0, "x", 1, None]},
    }
    assert answered(session({"effect": effect}, strange, SAY)).text == "there"
