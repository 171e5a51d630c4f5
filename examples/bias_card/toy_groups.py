"""Enumerate all groups of trajectories of the toy, as one batch for the estimators."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product

import torch
from torch import Tensor

from bias_card.toy import Ending, Toy, ToyCritic
from docagent_rl.advantages.inputs import AdvantageInputs, Discounts
from docagent_rl.base.errors import UserError

_TUPLES_UP_TO = 8
_LARGEST = 64
_TURN_INDEX = (0, 0, -1, 1, 1)
"""The turn of each position: decision, end of turn, an observation (-1), decision, end of turn."""
_SAMPLED = [0, 1, 3, 4]
_DECISIONS = [0, 3]


@dataclass(frozen=True, eq=False)
class ToyGroups:
    """Every group of g trajectories that can be sampled, with its probability.

    Attributes:
        toy: the problem.
        endings: the `Ending` of each trajectory, shape (n, g).
        probability: the probability of each group, float64 of shape (n,); its sum is 1.
    """

    toy: Toy
    endings: Tensor
    probability: Tensor
    _batches: dict[tuple, AdvantageInputs] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def enumerate(cls, toy: Toy, size: int) -> ToyGroups:
        """Return all groups of `size` trajectories.

        Up to a size of 8, each order of the same endings is a group of its own. Above, they are one
        group with the sum of their probabilities.

        Raises:
            UserError: `size` is not from 2 to 64.
        """
        if not 2 <= size <= _LARGEST:
            raise UserError(f"group size {size}: give a number from 2 to {_LARGEST}.")
        if size <= _TUPLES_UP_TO:
            return cls.ordered(toy, size)
        return cls.counted(toy, size)

    @classmethod
    def ordered(cls, toy: Toy, size: int) -> ToyGroups:
        """Return all `3 ** size` tuples of endings as groups."""
        endings = torch.tensor(list(product(Ending, repeat=size)))
        return cls(toy, endings, toy.probabilities[endings].prod(-1))

    @classmethod
    def counted(cls, toy: Toy, size: int) -> ToyGroups:
        """Return one group for all tuples that hold the same endings in any order."""
        endings = torch.tensor(list(combinations_with_replacement(Ending, size)))
        counts = torch.stack([(endings == ending).sum(-1) for ending in Ending], -1).double()
        log_orders = math.lgamma(size + 1) - torch.lgamma(counts + 1).sum(-1)
        log_each = (counts * toy.probabilities.log()).sum(-1)
        return cls(toy, endings, (log_orders + log_each).exp())

    def inputs(
        self,
        *,
        critic: ToyCritic | None = None,
        similarity: float | None = None,
        discounts: Discounts | None = None,
    ) -> AdvantageInputs:
        """Return the batch of `n g` rows of five positions; a turn's last token has its reward.

        Args:
            critic: the critic whose values are in the batch; None for a batch without values.
            similarity: the cosine between the embeddings of trajectories that stop and of those
                that go on, in [-1, 1]; within either kind it is 1. None for a batch without
                embeddings.
            discounts: see `Discounts`; by default none.
        """
        key = (critic, similarity, discounts)
        if key not in self._batches:
            self._batches[key] = self._build(critic, similarity, discounts or Discounts())
        return self._batches[key]

    def _build(
        self, critic: ToyCritic | None, similarity: float | None, discounts: Discounts
    ) -> AdvantageInputs:
        ending = self.endings.flatten()
        rewards = torch.zeros(len(ending), len(_TURN_INDEX), dtype=torch.float64)
        rewards[:, [1, 4]] = self.toy.rewards[ending]
        turn_index = torch.tensor(_TURN_INDEX).repeat(len(ending), 1)
        turn_index[ending == Ending.STOP, 2:] = -1
        values = embeddings = None
        if critic is not None:
            values = torch.zeros_like(rewards)
            values[:, _SAMPLED] = critic.values[ending]
        if similarity is not None:
            going_on = [similarity, math.sqrt(1 - similarity**2)]
            embeddings = torch.tensor([[1.0, 0.0], going_on, going_on], dtype=torch.float64)[ending]
        trajectory = torch.arange(len(ending))
        return AdvantageInputs(
            token_rewards=rewards,
            mask=turn_index >= 0,
            turn_index=turn_index,
            trajectory=trajectory,
            row=torch.zeros_like(trajectory),
            group=trajectory // self.endings.shape[1],
            values=values,
            embeddings=embeddings,
            discounts=discounts,
        )

    def decisions(self, advantages: Tensor) -> Tensor:
        """Return the advantages (n, g, 2) of the decisions from those of such a batch (n g, 5)."""
        return advantages[:, _DECISIONS].double().unflatten(0, self.endings.shape)

    def moments(self, decisions: Tensor) -> tuple[Tensor, Tensor]:
        """Return expectation and variance over groups of a group's gradient estimate.

        The estimate of a group is the mean over its trajectories of score times advantage.

        Args:
            decisions: the advantages of the decisions, (n, g, 2).

        Returns:
            both of shape (2,), with respect to theta and phi.
        """
        estimates = (self.toy.scores[self.endings] * decisions).mean(1)
        weights = self.probability[:, None]
        mean = (weights * estimates).sum(0)
        return mean, (weights * (estimates - mean).square()).sum(0)
