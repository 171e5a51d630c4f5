"""Logged turns: which actions were executed, refused or dropped."""

from docagent_rl.actions.base import Crop, Invalid, InvalidReason, ParsedTurn, Search
from docagent_rl.envs.effects import Candidates, NoNewPage, PagesShown
from docagent_rl.envs.turn_log import LoggedTurn, TurnLog
from docagent_rl.envs.turn_record import ActionRecord

SEARCH, CROP = Search((0, 9), (2, 7), "q"), Crop((10, 20), (12, 18), ((1.0, 2.0, 3.0, 4.0),))
NO_PAGE = NoNewPage(2)
OPEN = Invalid(None, None, InvalidReason.UNCLOSED, "open")


def test_a_refused_action_is_invalid_and_was_not_carried_out():
    logged = LoggedTurn(1, ParsedTurn(CROP), effect=NO_PAGE)
    assert logged.invalid is None
    assert logged.ran(Crop)
    assert not logged.ran(Search)
    assert logged.record().executed is True
    logged.refuse("the box is empty")
    assert logged.invalid == Invalid(
        (10, 20), (12, 18), InvalidReason.BAD_ARGUMENT, "the box is empty"
    )
    assert not logged.ran(Crop)
    record = logged.record()
    assert (record.valid, record.executed) == (False, False)
    assert (record.reason, record.detail) == ("bad_argument", "the box is empty")


def test_a_turn_that_is_only_read_for_an_answer_ran_nothing():
    logged = LoggedTurn(3, ParsedTurn(SEARCH), executed=False)
    assert not logged.ran(Search)
    record = logged.record()
    assert (record.turn, record.valid, record.executed) == (3, True, False)
    assert (record.reason, record.detail) == (None, None)


def test_an_invalid_turn_is_its_own_fault():
    logged = LoggedTurn(1, ParsedTurn(OPEN))
    assert logged.invalid is OPEN
    assert not logged.ran(Invalid)
    assert logged.record().reason == "unclosed"


def test_a_turn_is_written_with_all_that_it_holds():
    parsed = ParsedTurn(SEARCH, surplus=(CROP,), thoughts=((0, 2),), notes=((3, 5), (6, 7)))
    logged = LoggedTurn(2, parsed, effect=NO_PAGE, seconds={"search": 0.5})
    record = logged.record()
    assert record.action == ActionRecord("search", (0, 9), (2, 7), {"query": "q"})
    assert record.surplus == (ActionRecord.of(CROP),)
    assert (record.thoughts, record.notes) == (((0, 2),), ((3, 5), (6, 7)))
    assert (record.effect, record.seconds) == (NO_PAGE, {"search": 0.5})


def test_effects_are_counted_by_kind():
    effects = (NO_PAGE, PagesShown(()), NO_PAGE)
    log = TurnLog(
        [LoggedTurn(n, ParsedTurn(SEARCH), effect=each) for n, each in enumerate(effects)]
    )
    log.turns.append(LoggedTurn(4, ParsedTurn(CROP)))
    assert [log.effects(kind) for kind in (NoNewPage, PagesShown, Candidates)] == [2, 1, 0]
    assert (log.ran(Search), log.ran(Crop)) == (3, 1)
