"""Turns as rows of a batch, for means over turns (ALDEN, arXiv 2510.25668, Eq. 6).

A turn is what the policy sampled in it together with the observation that follows, up to the next
turn. Tokens before the first turn of a response belong to that turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def turn_lengths(turn_index: Tensor) -> Tensor:
    """Return the number of tokens of each turn (n,) of a response.

    Args:
        turn_index: (t,), the turn of each sampled token, and a negative number elsewhere; turns
            follow each other in ascending order.
    """
    # the turn of each token, also of those that were not sampled
    latest = turn_index.cummax(dim=0).values
    begins = (latest[1:] > latest[:-1]) & (latest[:-1] >= 0)
    starts = torch.cat([begins.new_ones(1), begins]).nonzero().flatten()
    return starts.diff(append=starts.new_tensor([len(turn_index)]))


@dataclass(frozen=True, eq=False)
class TurnRows:
    """The arrangement of b rows of responses as n rows, one for each turn.

    Args:
        lengths: the numbers of tokens of all turns, row by row; their sum is the number of tokens
            of all responses.
        real: (b, t) booleans, false on the padding of responses.
    """

    lengths: Sequence[int]
    real: Tensor

    def arranged(self, values: Tensor) -> Tensor:
        """Return (b, t) as (n, l), where l is the length of the longest turn; padded with zeros.

        Differentiable.
        """
        return pad_sequence(values[self.real].split(list(self.lengths)), batch_first=True)
