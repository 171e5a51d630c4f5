"""The signatures that a reward function may have: verl's, and the two of EasyR1.

verl calls `compute_score(data_source, solution_str, ground_truth, extra_info)` with names
(`verl/experimental/reward_loop/reward_manager/naive.py`). EasyR1 calls a function of one argument,
a list of inputs or one input, as the file's `REWARD_TYPE` says (`verl/workers/reward/function.py`
there); without it that is a list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import UserError

VERL_NAMES = ("data_source", "solution_str", "ground_truth", "extra_info")
REWARD_TYPE = "REWARD_TYPE"
"""The variable of a file for EasyR1 that says what its function takes."""
BATCH = "batch"
SEQUENTIAL = "sequential"


class CallStyle(StrEnum):
    """The signature of a reward function."""

    VERL = "verl"
    """Four arguments by name; it returns a number, or a dictionary with `score`."""
    EASYR1_BATCH = "easyr1_batch"
    """A list of dictionaries; it returns as many dictionaries with `overall`."""
    EASYR1_SEQUENTIAL = "easyr1_sequential"
    """A dictionary; it returns a dictionary with `overall`."""

    @property
    def main(self) -> str:
        """Return the key of the reward in a dictionary that the function returns."""
        return "score" if self is CallStyle.VERL else "overall"


@dataclass(frozen=True, slots=True)
class RewardCall:
    """The facts of a trajectory that a reward function is told.

    Args:
        question_id: for messages alone.
        data_source: the name of the data set.
        solution: the final answer; empty where there is none.
        ground_truth: the right answer as a text, or a list where there are several or none.
        response_length: the sampled tokens.
        extra_info: the fields of the sample, `num_turns`, and the record of the trajectory as
            `trajectory`.
    """

    question_id: str
    data_source: str
    solution: str
    ground_truth: str | list[str]
    response_length: int
    extra_info: dict[str, Any] = field(default_factory=dict)

    def arguments(
        self, style: CallStyle, reward_kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and the named arguments for a function of a style.

        As in verl, `reward_kwargs` take the place of an argument of the same name.
        """
        if style is CallStyle.VERL:
            own = (self.data_source, self.solution, self.ground_truth, self.extra_info)
            return (), {**dict(zip(VERL_NAMES, own, strict=True)), **reward_kwargs}
        told = {
            "response": self.solution,
            "response_length": self.response_length,
            "ground_truth": self.ground_truth,
            "data_source": self.data_source,
            "extra_info": self.extra_info,
        }
        return ([told] if style is CallStyle.EASYR1_BATCH else told,), dict(reward_kwargs)


def style_of(
    function: Callable[..., Any],
    variables: Mapping[str, Any],
    reward_kwargs: Mapping[str, Any],
    what: str,
) -> CallStyle:
    """Return the style of a function by its parameters and the variables of its module; nothing is
    called.

    `what` is the key and the place of the function, for messages.

    Raises:
        UserError: the function takes the arguments of neither style, or not these `reward_kwargs`.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{what}: its parameters cannot be read ({error}): write it in Python"
        ) from error
    style = _likely(signature, variables, what)
    placeholder = RewardCall("", "", "", "", 0)
    positional, named = placeholder.arguments(style, reward_kwargs)
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        given = f" and reward_kwargs {', '.join(reward_kwargs)}" if reward_kwargs else ""
        raise UserError(
            f"{what}: its parameters are {signature}, and it is called with "
            f"{_described(style)}{given}: "
            f"{error}. A function for verl takes {', '.join(VERL_NAMES)}; one for EasyR1 takes one "
            "argument, "
            f"a list of dictionaries, or one dictionary with {REWARD_TYPE} = {SEQUENTIAL!r} in its "
            "file "
            "(docs/extending.md)"
        ) from error
    return style


def _likely(signature: inspect.Signature, variables: Mapping[str, Any], what: str) -> CallStyle:
    """Return the style that a function is written for, whether or not it takes the arguments of
    it.
    """
    if not signature.parameters.keys().isdisjoint(VERL_NAMES):
        return CallStyle.VERL
    kind = variables.get(REWARD_TYPE)
    if kind is None:
        free = all(
            each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            for each in signature.parameters.values()
        )
        return CallStyle.VERL if free else CallStyle.EASYR1_BATCH
    if kind not in (BATCH, SEQUENTIAL):
        raise UserError(
            f"{what}: {REWARD_TYPE} = {kind!r} in its file has to be {BATCH!r} or {SEQUENTIAL!r}"
        )
    return CallStyle.EASYR1_BATCH if kind == BATCH else CallStyle.EASYR1_SEQUENTIAL


def _described(style: CallStyle) -> str:
    names = {
        CallStyle.VERL: ", ".join(VERL_NAMES),
        CallStyle.EASYR1_BATCH: "a list of dictionaries",
        CallStyle.EASYR1_SEQUENTIAL: "one dictionary",
    }
    return names[style]
