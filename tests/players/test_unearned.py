"""The rewards of agents that do not know the answer are those that `System.unearned` states, and
similar plans get no more.
"""

import pytest

from docagent_rl.systems import SYSTEMS, get_system
from tests.players.unearned import Plan, Table, asked_of, games, neighbours

GAMES = games()
STATED = {
    (name, variant): found
    for name in SYSTEMS
    for variant, found in get_system(name).unearned.items()
}


@pytest.fixture(scope="module", params=GAMES, ids="-".join)
def game(request, library):
    return STATED[request.param], Table(GAMES[request.param], library, asked_of(library))


def test_every_variant_of_every_system_says_what_it_pays():
    assert set(STATED) == set(GAMES)


def test_what_is_paid_without_the_answer_is_stated(game):
    stated, table = game
    assert table.value(stated.plan) / table.honest() == pytest.approx(stated.unknowing, abs=0.005)


def test_what_is_paid_beyond_an_honest_trajectory_is_stated(game):
    stated, table = game
    plan = stated.knowing_plan
    paid = table.value(plan) / table.honest() if plan else 1.0
    assert paid == pytest.approx(stated.knowing, abs=0.005)


@pytest.mark.slow
def test_no_change_of_a_stated_plan_is_paid_more(game):
    stated, table = game
    rules = table.game
    assert better(table, stated.plan, tuple(rules.moves), rules.last) == []
    if stated.knowing_plan:
        moves = (*rules.moves, *rules.informed)
        assert better(table, stated.knowing_plan, moves, ("answer right",)) == []


def better(table: Table, plan: Plan, moves, answers) -> list[Plan]:
    """Return the plans next to one that get a higher reward."""
    near = neighbours(plan, moves, answers, table.game.turns)
    return [each for each in near if table.value(each) > table.value(plan) + 1e-9]
