from __future__ import annotations

from bias_card.rows import bias_rows
from docagent_rl.advantages import Card, Case, Family, registered_estimators, registry
from docagent_rl.advantages.grpo import grpo


def test_every_case_of_a_registered_estimator_is_a_row(monkeypatch) -> None:
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    before = [row.name for row in bias_rows()]
    registry.register("another", card=Card(Family.SESSION, (Case("another", first="g1"),)))(grpo)
    (added,) = [row for row in bias_rows() if row.name not in before]
    assert (added.name, added.family, added.first) == ("another", Family.SESSION, "g1")


def test_names_of_rows_differ_and_families_follow_each_other() -> None:
    rows = bias_rows()
    assert len({row.name for row in rows}) == len(rows)
    families = [row.family for row in rows]
    assert families == sorted(families, key=list(Family).index)


def test_of_the_packages_estimators_one_is_not_on_the_card() -> None:
    own = [e for e in registered_estimators().values() if e.function.__module__.startswith("docagent_rl.")]
    assert [each.name for each in own if each.card is None] == ["spo_prefix"]


def test_what_a_card_gives_an_estimator_its_options_take() -> None:
    cards = [(each, each.card) for each in registered_estimators().values() if each.card is not None]
    for estimator, card in cards:
        for case in card.cases:
            assert estimator.parse(case.options).keys() == case.options.keys()
