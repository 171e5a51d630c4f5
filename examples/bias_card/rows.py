"""List the lines of the bias card, including the estimators of a user's own modules."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from bias_card.cases import CASES, Case, Critic, Family
from bias_card.toy import ToyCritic
from bias_card.toy_groups import ToyGroups
from docagent_rl.advantages import Need, registered_estimators

Decisions = Callable[[ToyGroups], Tensor]
"""Returns the advantages (n, g, 2) that an estimator gives to the decisions in all groups."""


@dataclass(frozen=True)
class BiasRow:
    """One line of the card.

    Attributes:
        family: the table that the line is in.
        case: the estimator's name, options and closed forms.
        estimator: the function that returns its advantages.
    """

    family: Family
    case: Case
    estimator: Decisions

    @property
    def name(self) -> str:
        """The line's name in Markdown, unique in the card."""
        return self.case.name


def bias_rows(similarity: float = 0.6, modules: Collection[str] = ()) -> list[BiasRow]:
    """Return all lines, family by family.

    The estimators that `modules` registered come last, with their default options.

    Args:
        similarity: the cosine between stopping and going on, for estimators that read embeddings.
        modules: names of imported modules that registered estimators.
    """
    users_cases = tuple(
        Case(estimator.name, f"`{estimator.name}`", {})
        for estimator in registered_estimators().values()
        if estimator.function.__module__ in modules
    )
    rows = []
    for family, cases in {**CASES, Family.OTHER: users_cases}.items():
        for case in cases:
            rows.append(BiasRow(family, case, partial(_decide, case, similarity)))
    return rows


def _decide(case: Case, similarity: float, groups: ToyGroups) -> Tensor:
    """Call the estimator as in training, and return the advantages of the decisions, (n, g, 2)."""
    estimator = registered_estimators()[case.estimator]
    inputs = groups.inputs(
        critic=_critic(groups, case) if Need.VALUES in estimator.needs else None,
        similarity=similarity if Need.EMBEDDINGS in estimator.needs else None,
        discounts=case.discounts,
    )
    return groups.decisions(estimator.compute(inputs, case.options).advantages)


def _critic(groups: ToyGroups, case: Case) -> ToyCritic:
    if case.critic is Critic.WRONG:
        return ToyCritic()
    return ToyCritic.exact(groups.toy, case.discounts.gamma_turn)
