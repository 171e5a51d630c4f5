"""The lines of the bias card, from the registry: whatever estimator declares a `Card` has some."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from bias_card import split  # noqa: F401  registers what is on the card and not in the package
from bias_card.toy import ToyCritic
from bias_card.toy_groups import ToyGroups
from docagent_rl.advantages import Case, Critic, Discounts, Estimator, Family, Need, registered_estimators

Decisions = Callable[[ToyGroups], Tensor]
"""Gives the advantages (n, g, 2) of the decisions."""


@dataclass(frozen=True)
class BiasRow:
    """One line of the card.

    Attributes:
        family: where it belongs.
        name: unique.
        estimator: see `Decisions`.
        first: closed form of the expected gradient of going on, empty where there is none.
        second: the same for picking well.
    """

    family: Family
    name: str
    estimator: Decisions
    first: str = ""
    second: str = ""


def bias_rows(similarity: float = 0.6) -> list[BiasRow]:
    """All lines, family by family and estimator by estimator.

    Args:
        similarity: cosine between stopping and going on, for estimators that read embeddings.
    """
    known = [(each, each.card) for each in registered_estimators().values() if each.card is not None]
    return [
        BiasRow(family, case.name, partial(_decide, each, case, similarity), case.first, case.second)
        for family in Family
        for each, card in known
        if card.family is family
        for case in card.cases
    ]


def _decide(estimator: Estimator, case: Case, similarity: float, groups: ToyGroups) -> Tensor:
    """Return what the estimator gives to the decisions, called as in training."""
    discounts = case.discounts
    inputs = groups.inputs(
        critic=_critic(groups, case) if Need.VALUES in estimator.needs else None,
        similarity=similarity if Need.EMBEDDINGS in estimator.needs else None,
        discounts=discounts,
    )
    with warnings.catch_warnings():
        # an estimator may warn of what the card measures
        warnings.filterwarnings("ignore", message=estimator.name, category=UserWarning)
        return groups.decisions(estimator.compute(inputs, case.options).advantages)


def _critic(groups: ToyGroups, case: Case) -> ToyCritic:
    if case.critic is Critic.WRONG:
        return ToyCritic()
    return ToyCritic.exact(groups.toy, (case.discounts or Discounts()).gamma_turn)
