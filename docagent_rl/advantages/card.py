"""What an estimator declares for the bias card: how it is called there, and what is known of its gradient.

The card (`examples/bias_card`) enumerates all groups of trajectories of a problem of two turns, gives them to
every registered estimator that has a `Card`, and compares its expected gradient with the true one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docagent_rl.advantages.inputs import Discounts


class Family(StrEnum):
    """What the advantage is made of; a table of the card each."""

    TRAJECTORY = "One number a trajectory"
    TURN = "One number a turn, compared within the group (`turn_grpo`)"
    SIMILARITY = "Compared with similar trajectories"
    CRITIC = "With a critic"
    OTHER = "Other"


class Critic(StrEnum):
    """Which values an estimator is given that needs some."""

    WRONG = "a critic that is wrong"
    EXACT = "an exact critic"


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the card.

    Attributes:
        name: of the line, unique in the card; Markdown.
        options: as `docagent.advantage.options` holds them.
        first: closed form of the expected gradient of going on, empty where there is none.
        second: the same for picking well.
        critic: where the estimator reads values.
        discounts: of both levels.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    first: str = ""
    second: str = ""
    critic: Critic = Critic.WRONG
    discounts: Discounts | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """The lines of an estimator."""

    family: Family
    cases: tuple[Case, ...]
