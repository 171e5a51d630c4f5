"""Call an estimator on a made-up batch before a run, to find mistakes before the run starts."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from docagent_rl.advantages.inputs import AdvantageInputs, Discounts
from docagent_rl.advantages.registry import Estimator, Need
from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import described

GROUPS = 2
MOST_TRAJECTORIES = 8
"""Maximum number of trajectories per group."""
DIMENSIONS = 16
"""Dimensions of the made-up embeddings; the real embedder is not loaded for this."""
CERTAIN = (TypeError, NameError, AttributeError, ImportError, NotImplementedError)
"""Errors that are caused by the code, not by the numbers in the batch."""


class MadeUpTerms(Mapping[str, Tensor]):
    """Reward terms (b, t) for any name, as a system's terms are unknown before it plays."""

    def __init__(self, rewards: Tensor) -> None:
        self._rewards = rewards

    def __getitem__(self, name: str) -> Tensor:
        return self._rewards.clone()

    def __iter__(self) -> Iterator[str]:
        return iter(("total",))

    def __len__(self) -> int:
        return 1


def rehearse(
    estimator: Estimator,
    options: Mapping[str, Any],
    *,
    trajectories: int = 2,
    critic: bool = False,
    discounts: Discounts | None = None,
) -> str | None:
    """Call an estimator on `made_up_inputs`, with as many trajectories per group as the run plays.

    Returns:
        A problem that may be due to the made-up batch (an exception that depends on the numbers, a
        result that is not finite), or None.

    Raises:
        UserError: a problem that any batch would have: a wrong option, a wrong type or shape of the
            result, a name that does not exist.
    """
    needs = estimator.needs | ({Need.VALUES} if critic else set())
    inputs = made_up_inputs(
        needs, trajectories=min(trajectories, MOST_TRAJECTORIES), discounts=discounts
    )
    parsed = estimator.parse(options)
    try:
        result = estimator.function(inputs, **parsed)
    except UserError:
        raise
    except CERTAIN as error:
        raise UserError(
            f"estimator {estimator.name} fails on a made-up batch: {described(error)}"
        ) from error
    except Exception as error:  # the user's function may not expect these numbers
        return f"estimator {estimator.name} fails on a made-up batch: {described(error)}"
    estimator.check_form(result, inputs)
    try:
        estimator.check(result, inputs)
    except UserError as error:
        return f"{error}, on a made-up batch"
    return None


def needs_groups(
    estimator: Estimator,
    options: Mapping[str, Any],
    *,
    critic: bool = False,
    discounts: Discounts | None = None,
) -> bool:
    """Return whether every advantage is 0 if each question has one trajectory.

    Errors of the estimator are ignored here; `rehearse` reports them.
    """
    needs = estimator.needs | ({Need.VALUES} if critic else set())
    inputs = made_up_inputs(needs, trajectories=1, discounts=discounts)
    try:
        advantages = estimator.compute(inputs, options).advantages
    except Exception:  # the user's function may raise anything; `rehearse` reports it
        return False
    return not advantages[inputs.mask].any()


def made_up_inputs(
    needs: frozenset[Need] | set[Need], *, trajectories: int = 2, discounts: Discounts | None = None
) -> AdvantageInputs:
    """Make two groups of trajectories with one row each: two turns with an observation in between,
    or one turn.

    Rewards differ between trajectories and between turns. The numbers are always the same. The
    batch contains texts, and the inputs in `needs`.
    """
    count = GROUPS * trajectories
    plays = ([0, 0, -1, -1, 1, 1, 1], [0, 0, 0, -1, 1, 1, -1], [0, 0, -1, -1, -1, -1, -1])
    turns = torch.tensor([plays[number % len(plays)] for number in range(count)])
    last = turns.ne(turns.roll(-1, 1)) & (turns >= 0)
    rewards = last * (0.1 + torch.arange(last.numel()).view(last.shape).sin().abs())
    table = torch.arange(1.0, count * DIMENSIONS + 1).view(count, DIMENSIONS).sin()
    ids = torch.arange(count)
    return AdvantageInputs(
        token_rewards=rewards,
        mask=turns >= 0,
        turn_index=turns,
        trajectory=ids,
        row=torch.zeros_like(ids),
        group=ids // trajectories,
        values=torch.arange(turns.numel()).view(turns.shape).cos()
        if Need.VALUES in needs
        else None,
        embeddings=torch.nn.functional.normalize(table) if Need.EMBEDDINGS in needs else None,
        prefix_embeddings=_prefixes(table, turns) if Need.PREFIXES in needs else None,
        step=turns if Need.PREFIXES in needs else None,
        texts=[f"search for figure {number}, then answer" for number in range(count)],
        terms=MadeUpTerms(rewards),
        discounts=discounts or Discounts(),
    )


def _prefixes(table: Tensor, turns: Tensor) -> Tensor:
    """Return (s, k + 1, d) from (s, d): a trajectory's vector rotates a little with every turn."""
    steps = torch.arange(int(turns.max()) + 2)
    return torch.nn.functional.normalize(table[:, None] + 0.1 * steps[:, None], dim=-1)
