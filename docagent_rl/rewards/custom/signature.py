"""The signatures that a reward function may have: verl's, and the two of EasyR1.

verl calls `compute_score(data_source, solution_str, ground_truth, extra_info)` with keyword
arguments (`verl/experimental/reward_loop/reward_manager/naive.py`). EasyR1 calls a function with
one argument: a list of inputs or a single input, depending on the file's `REWARD_TYPE`
(`verl/workers/reward/function.py` there); the default is a list.
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
"""The variable of an EasyR1 file that says whether its function takes a list or a single input."""
BATCH = "batch"
SEQUENTIAL = "sequential"


class CallStyle(StrEnum):
    """The signature of a reward function."""

    VERL = "verl"
    """Takes four keyword arguments and returns a number, or a dictionary with `score`."""
    EASYR1_BATCH = "easyr1_batch"
    """Takes a list of dictionaries and returns as many dictionaries with `overall`."""
    EASYR1_SEQUENTIAL = "easyr1_sequential"
    """Takes a dictionary and returns a dictionary with `overall`."""

    @property
    def main(self) -> str:
        """Return the key of the reward in the dictionary that the function returns."""
        return "score" if self is CallStyle.VERL else "overall"


@dataclass(frozen=True, slots=True)
class RewardCall:
    """The facts of a trajectory that are passed to a reward function.

    Args:
        question_id: the id of the question, which is used only in messages.
        data_source: the name of the data set.
        solution: the final answer; empty if there is none.
        ground_truth: the right answer as a text, or a list if there are several or none.
        response_length: the number of sampled tokens.
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
        """Return the positional and the keyword arguments for a function of a style.

        As in verl, `reward_kwargs` override arguments of the same name.
        """
        if style is CallStyle.VERL:
            own = (self.data_source, self.solution, self.ground_truth, self.extra_info)
            return (), {**dict(zip(VERL_NAMES, own, strict=True)), **reward_kwargs}
        inputs = {
            "response": self.solution,
            "response_length": self.response_length,
            "ground_truth": self.ground_truth,
            "data_source": self.data_source,
            "extra_info": self.extra_info,
        }
        argument = [inputs] if style is CallStyle.EASYR1_BATCH else inputs
        return (argument,), dict(reward_kwargs)


def style_of(
    function: Callable[..., Any],
    variables: Mapping[str, Any],
    reward_kwargs: Mapping[str, Any],
    what: str,
) -> CallStyle:
    """Determine the style of a function from its parameters and its module's variables.

    The function is not called. `what` is its configuration key and location, for messages.

    Raises:
        UserError: the function accepts the arguments of no style, or not these `reward_kwargs`.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{what}: its parameters cannot be inspected ({error}): write it in Python"
        ) from error
    style = _likely(signature, variables, what)
    placeholder = RewardCall("", "", "", "", 0)
    positional, named = placeholder.arguments(style, reward_kwargs)
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        given = f" and reward_kwargs {', '.join(reward_kwargs)}" if reward_kwargs else ""
        raise UserError(
            f"{what}: its parameters are {signature}, but it is called with "
            f"{_described(style)}{given}: {error}. A function for verl takes "
            f"{', '.join(VERL_NAMES)}; one for EasyR1 takes one argument, a list of dictionaries, "
            f"or one dictionary with {REWARD_TYPE} = {SEQUENTIAL!r} in its file (docs/extending.md)"
        ) from error
    return style


def _likely(signature: inspect.Signature, variables: Mapping[str, Any], what: str) -> CallStyle:
    """Guess the style for which a function is written; its parameters may still not fit."""
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
            f"{what}: {REWARD_TYPE} = {kind!r} in its file must be {BATCH!r} or {SEQUENTIAL!r}"
        )
    return CallStyle.EASYR1_BATCH if kind == BATCH else CallStyle.EASYR1_SEQUENTIAL


def _described(style: CallStyle) -> str:
    names = {
        CallStyle.VERL: ", ".join(VERL_NAMES),
        CallStyle.EASYR1_BATCH: "a list of dictionaries",
        CallStyle.EASYR1_SEQUENTIAL: "one dictionary",
    }
    return names[style]
