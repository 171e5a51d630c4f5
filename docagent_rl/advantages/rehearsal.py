"""Calls an estimator on a made-up batch before a run, so that a mistake in it costs no run."""

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
"""Trajectories of a group at most."""
DIMENSIONS = 16
"""Dimensions of the made-up embeddings; not those of the embedder, which is not loaded for this."""
CERTAIN = (TypeError, NameError, AttributeError, ImportError, NotImplementedError)
"""Errors that have their cause in the code and not in the numbers it is given."""


class MadeUpTerms(Mapping[str, Tensor]):
    """Reward terms (b, t) of any name: which a system has shows in its first trajectory."""

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
    """Call an estimator on `made_up_inputs`, with as many trajectories a group as the run plays.

    Returns:
        What went wrong and may lie in the batch, which is not one of the run's (an exception that
        depends on numbers, a result that is not finite); None if nothing did.

    Raises:
        UserError: what went wrong whatever the batch: an option, the type or shape of the result, a
            name that does not exist.
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
    except Exception as error:  # a function of the user's, on numbers that are not the run's
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
    """Return whether every advantage is 0 where each question has one trajectory.

    Whatever goes wrong with the estimator is left to `rehearse`.
    """
    needs = estimator.needs | ({Need.VALUES} if critic else set())
    inputs = made_up_inputs(needs, trajectories=1, discounts=discounts)
    try:
        advantages = estimator.compute(inputs, options).advantages
    except Exception:  # of a function of the user's, which `rehearse` tells
        return False
    return not advantages[inputs.mask].any()


def made_up_inputs(
    needs: frozenset[Need] | set[Need], *, trajectories: int = 2, discounts: Discounts | None = None
) -> AdvantageInputs:
    """Make two groups of trajectories of one row: two turns with an observation between them, or
    one turn.

    Rewards differ between trajectories and turns. Always the same numbers; `needs` beside them, and
    texts.
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
    """(s, k + 1, d) from (s, d): the vector of a trajectory turns a little with each of its
    turns.
    """
    steps = torch.arange(int(turns.max()) + 2)
    return torch.nn.functional.normalize(table[:, None] + 0.1 * steps[:, None], dim=-1)
