"""Turns as they are logged: what was carried out, refused, dropped."""

from docagent_rl.actions.base import Crop, Invalid, InvalidReason, ParsedTurn, Search
from docagent_rl.envs.turn_log import LoggedTurn, TurnLog, describe_action

SEARCH, CROP = Search((0, 9), (2, 7), "q"), Crop((10, 20), (12, 18), ((1.0, 2.0, 3.0, 4.0),))
OPEN = Invalid(None, None, InvalidReason.UNCLOSED, "open")


def test_a_refused_action_is_invalid_and_was_not_carried_out():
    logged = LoggedTurn(1, ParsedTurn(CROP), effect={"kind": "crop"})
    assert logged.invalid is None
    assert logged.ran(Crop)
    assert not logged.ran(Search)
    assert logged.to_dict()["executed"] is True
    logged.refuse("the box is empty")
    assert logged.invalid == Invalid((10, 20), (12, 18), InvalidReason.BAD_ARGUMENT, "the box is empty")
    assert not logged.ran(Crop)
    written = logged.to_dict()
    assert (written["valid"], written["executed"]) == (False, False)
    assert (written["reason"], written["detail"]) == ("bad_argument", "the box is empty")


def test_a_turn_that_is_only_read_for_an_answer_ran_nothing():
    logged = LoggedTurn(3, ParsedTurn(SEARCH), executed=False)
    assert not logged.ran(Search)
    written = logged.to_dict()
    assert (written["turn"], written["valid"], written["executed"]) == (3, True, False)
    assert (written["reason"], written["detail"]) == (None, None)


def test_an_invalid_turn_is_its_own_fault():
    logged = LoggedTurn(1, ParsedTurn(OPEN))
    assert logged.invalid is OPEN
    assert not logged.ran(Invalid)
    assert logged.to_dict()["reason"] == "unclosed"


def test_a_turn_is_written_with_all_that_it_holds():
    parsed = ParsedTurn(SEARCH, surplus=(CROP,), thoughts=((0, 2),), notes=((3, 5), (6, 7)))
    logged = LoggedTurn(2, parsed, effect={"kind": "pages"}, seconds={"search": 0.5})
    written = logged.to_dict()
    assert written["action"] == describe_action(SEARCH)
    assert written["surplus"] == [describe_action(CROP)]
    assert (written["thoughts"], written["notes"]) == ([[0, 2]], [[3, 5], [6, 7]])
    assert (written["effect"], written["seconds"]) == ({"kind": "pages"}, {"search": 0.5})


def test_effects_are_counted_by_kind():
    kinds = ("pages", "crop", "pages")
    log = TurnLog([LoggedTurn(n, ParsedTurn(SEARCH), effect={"kind": kind}) for n, kind in enumerate(kinds)])
    log.turns.append(LoggedTurn(4, ParsedTurn(CROP)))
    assert [log.effects(kind) for kind in ("pages", "crop", "other")] == [2, 1, 0]
    assert (log.ran(Search), log.ran(Crop)) == (3, 1)
