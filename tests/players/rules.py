"""What players know of a system: how turns are written, the limits of a trajectory, and its
rewards.
"""

from __future__ import annotations

import copy
import functools
import itertools
import random
from collections.abc import Callable, Iterable
from typing import ClassVar

import pytest

from docagent_rl.base.section import VariantSection
from docagent_rl.envs.base import AssistantTurn, DocEnv, EndReason
from tests.players.attacks import Voice
from tests.players.referee import AgentState, Limits


class Rules:
    """The common part of what players know of a system. Subclasses import no grammar and no reward.
    Each also has

    - `best(corpus, sample)`: the turns of an oracle and what each of them is paid;
    - `good_calls(corpus, sample)`: calls that can be executed, and some whose arguments lead
      nowhere;
    - `audit(state, corpus, said, right)`: sees that every turn got its reward, given the answer and
      what the judge says of it.
    """

    env: ClassVar[Callable[..., DocEnv]]
    config: ClassVar[type[VariantSection]]
    voice: ClassVar[Voice]
    adversary: ClassVar[Callable[[random.Random], Iterable[AssistantTurn]]]
    answer: ClassVar[Callable[[AssistantTurn], str | None]]
    """The answer that a turn gives, if it gives one."""
    limits: Limits
    refusal = "Not answerable"
    ends = frozenset({EndReason.ANSWERED, EndReason.TURN_LIMIT})

    def __init__(self, variant: str = "paper", **settings) -> None:
        self.variant, self.settings = variant, settings

    def __str__(self) -> str:
        return f"{type(self).__name__}-{self.variant}"

    @functools.cached_property
    def parsed(self) -> VariantSection:
        return self.config.for_variant(self.variant, **self.settings)

    def lifted(self, **settings) -> Rules:
        """Return the same rules with additional settings."""
        other = copy.copy(self)
        other.settings = {**self.settings, **settings}
        vars(other).pop("parsed", None)
        return other

    def make(self, services) -> DocEnv:
        return self.env(self.parsed, services)

    def knowing(self, services, sample):
        """Return services with which an oracle gets the reward that it deserves."""
        return services

    def secret(self, sample) -> str:
        """Return the right answer."""
        return (sample.answers or (self.refusal,))[0]

    def wild(self, rng: random.Random) -> Iterable[AssistantTurn]:
        """Return more turns than a trajectory has, of an adversary that knows no rules."""
        return itertools.islice(self.adversary(rng), 14)


def paid_at_the_end(state: AgentState, terms: dict[str, float]) -> None:
    """Assert that the terms are these, and that only the last turn has a reward."""
    assert state.values == pytest.approx(terms)
    assert state.pay == pytest.approx([0.0] * (len(state.pay) - 1) + [terms["total"]])
