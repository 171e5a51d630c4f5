from __future__ import annotations

from bias_card.rows import bias_rows
from docagent_rl.advantages import Card, Case, Family, registered_estimators, registry
from docagent_rl.advantages.grpo import grpo


def test_every_case_of_a_registered_estimator_is_a_row(monkeypatch) -> None:
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    before = [row.name for row in bias_rows()]
    assert len(set(before)) == len(before)
    registry.register("another", card=Card(Family.SESSION, (Case("another", first="g1"),)))(grpo)
    (added,) = [row for row in bias_rows() if row.name not in before]
    assert (added.name, added.family, added.first) == ("another", Family.SESSION, "g1")


def test_what_a_card_gives_an_estimator_its_options_take() -> None:
    cards = [(each, each.card) for each in registered_estimators().values() if each.card is not None]
    for estimator, card in cards:
        for case in card.cases:
            assert estimator.parse(case.options).keys() == case.options.keys()
