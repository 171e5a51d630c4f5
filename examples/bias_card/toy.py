"""A two-turn problem so small that enumeration gives the expectation of every estimator."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum

import torch
from torch import Tensor

from docagent_rl.base.errors import UserError


class Ending(IntEnum):
    """The decisions of a trajectory of the toy."""

    STOP = 0
    """It stops in the first turn."""
    GOOD = 1
    """It goes on, then picks well."""
    BAD = 2
    """It goes on, then picks badly."""


@dataclass(frozen=True)
class Toy:
    """A problem of two decisions: stop at once, or go on and then pick well or badly.

    Each decision has a logit of its own: going on has the probability `p = sigmoid(theta)`, and
    picking well, after going on, has `q = sigmoid(phi)`. Gradients are pairs, with respect to theta
    and phi.

    Attributes:
        go_on: p, the probability of going on, within (0, 1).
        good: q, the probability of picking well after that, within (0, 1).
        stop_reward: a, the reward of the first turn for stopping.
        go_on_reward: c, the reward of the first turn for going on.
        good_reward: b1, the reward of the second turn for picking well.
        bad_reward: b0, the reward of the second turn for picking badly.

    Raises:
        UserError: a probability is not within (0, 1), or a reward is not finite.
    """

    go_on: float = 0.3
    good: float = 0.6
    stop_reward: float = 1.0
    go_on_reward: float = 0.4
    good_reward: float = 2.0
    bad_reward: float = 0.5

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not math.isfinite(value):
                raise UserError(f"toy.{each.name} is {value}: give a finite number.")
            if each.name in ("go_on", "good") and not 0 < value < 1:
                raise UserError(f"toy.{each.name} is {value}: give a probability between 0 and 1.")

    @property
    def second_mean(self) -> float:
        """`b = q b1 + (1 - q) b0`, the expected reward of the second turn."""
        return self.good * self.good_reward + (1 - self.good) * self.bad_reward

    @property
    def gain(self) -> float:
        """`c + b - a`, the expected reward of going on minus that of stopping."""
        return self.go_on_reward + self.second_mean - self.stop_reward

    @property
    def probabilities(self) -> Tensor:
        """The probability of each ending, shape (3,)."""
        p = self.go_on
        q = self.good
        return torch.tensor([1 - p, p * q, p * (1 - q)], dtype=torch.float64)

    @property
    def rewards(self) -> Tensor:
        """The reward of each turn by ending, shape (3, 2); 0 for the turn that stopping skips."""
        c = self.go_on_reward
        return torch.tensor(
            [[self.stop_reward, 0], [c, self.good_reward], [c, self.bad_reward]],
            dtype=torch.float64,
        )

    @property
    def scores(self) -> Tensor:
        """The derivative of each decision's log-prob by its logit, shape (3, 2) by ending."""
        p = self.go_on
        q = self.good
        return torch.tensor([[-p, 0], [1 - p, 1 - q], [1 - p, -q]], dtype=torch.float64)

    @property
    def gradient(self) -> Tensor:
        """The gradient of the expected total reward, shape (2,).

        It is `p (1 - p) gain` and `p q (1 - q) (b1 - b0)`.
        """
        p = self.go_on
        q = self.good
        second = p * q * (1 - q) * (self.good_reward - self.bad_reward)
        return torch.tensor([p * (1 - p) * self.gain, second], dtype=torch.float64)


@dataclass(frozen=True)
class ToyCritic:
    """A critic's values before the two tokens of each turn: the decision, and the end of the turn.

    The defaults are wrong on purpose.

    Attributes:
        start: the value before the first decision.
        stopped: the value after stopping.
        went_on: the value after going on, before the first turn ends.
        second: the value before the second decision.
        picked_good: the value after picking well.
        picked_bad: the value after picking badly.
    """

    start: float = 0.9
    stopped: float = 0.8
    went_on: float = 1.1
    second: float = 1.0
    picked_good: float = 1.7
    picked_bad: float = 0.9

    @classmethod
    def exact(cls, toy: Toy, gamma_turn: float = 1.0) -> ToyCritic:
        """Return the exact critic of a toy, whose values are expected discounted future rewards."""
        went_on = toy.go_on_reward + gamma_turn * toy.second_mean
        return cls(
            start=(1 - toy.go_on) * toy.stop_reward + toy.go_on * went_on,
            stopped=toy.stop_reward,
            went_on=went_on,
            second=toy.second_mean,
            picked_good=toy.good_reward,
            picked_bad=toy.bad_reward,
        )

    @property
    def values(self) -> Tensor:
        """The values by ending, shape (3, 4): two tokens of the first turn, two of the second."""
        stop = [self.start, self.stopped, 0.0, 0.0]
        go_on = [self.start, self.went_on, self.second]
        return torch.tensor(
            [stop, [*go_on, self.picked_good], [*go_on, self.picked_bad]], dtype=torch.float64
        )
