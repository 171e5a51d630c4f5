from __future__ import annotations

from docagent_rl.actions import ParsedTurn, Search, Select
from docagent_rl.documents import PageRef
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.systems.unidoc_rl.episode import Episode, Progress
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound

K = [PageRef("K", number) for number in range(1, 6)]
ROUNDS = (SearchRound((K[0], K[1]), selected=K[1]), SearchRound((K[2], K[3])))


def episode(record, **changes):
    return Episode(record(), frozenset({K[1], K[2], K[4]}), {}, ("blue",), **changes)


def test_progress_is_replaced_and_never_changed():
    before = Progress(rounds=ROUNDS, images=4)
    after = before.shown([None, None], rounds=())
    assert (after.images, after.rounds) == (6, ())
    assert (before.images, before.rounds) == (4, ROUNDS)


def test_selected_pages(record):
    played = episode(record, progress=Progress(rounds=ROUNDS))
    assert played.selected(implicit=False) == [K[1]]
    assert played.selected(implicit=True) == [K[1], K[2]]


def test_turns_that_were_dropped_ran_nothing(record):
    played = episode(record)
    played.log.turns += [
        LoggedTurn(1, ParsedTurn(Search(None, None, "a"))),
        LoggedTurn(2, ParsedTurn(Select(None, None, (1,))), dropped=True),
    ]
    assert (played.ran(Search), played.ran(Select)) == (1, 0)


def test_three_recalls(record):
    metrics = episode(record, progress=Progress(rounds=ROUNDS)).metrics(implicit=False)
    assert metrics["retrieval_recall"] == 2 / 3
    assert metrics["recall_first"] == 1 / 3
    assert metrics["recall_selected"] == 1 / 3
    assert metrics["pages_seen"] == 4
