"""Advantage estimators by name: those of this package, and those of users' own modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.errors import UserError

Function = Callable[..., Advantages]
"""`(inputs: AdvantageInputs, *, option=default, ...) -> Advantages`"""


class Need(Enum):
    """What an estimator reads beside rewards, masks and turns."""

    VALUES = "values"
    """A critic (`critic.enable=true`)."""
    EMBEDDINGS = "embeddings"
    """One vector a session (`docagent.advantage.embedder`)."""
    TEXTS = "texts"
    """The text of each session."""


@dataclass(frozen=True, slots=True)
class Estimator:
    """A registered estimator.

    Attributes:
        name: what `algorithm.adv_estimator` calls it.
        function: computes advantages.
        needs: what has to be in its input.
    """

    name: str
    function: Function
    needs: frozenset[Need]

    @property
    def options(self) -> dict[str, Any]:
        """Keyword options with their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def parse(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a configuration as the function takes them: enumerations from their values, and so on.

        Raises:
            UserError: an option that the function does not have, or a value of a wrong type.
        """
        hints = get_type_hints(self.function)
        parsed = {}
        for name, value in options.items():
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise UserError(
                    f"docagent.advantage.options.{name}: estimator {self.name} has no such option; "
                    f"known are {known}"
                )
            try:
                parsed[name] = TypeAdapter(hints.get(name, Any)).validate_python(value)
            except ValidationError as error:
                reason = error.errors()[0]["msg"]
                raise UserError(
                    f"docagent.advantage.options.{name}={value!r} of estimator {self.name}: {reason}"
                ) from error
        missing = [n for n, d in self.options.items() if d is inspect.Parameter.empty and n not in parsed]
        if missing:
            raise UserError(f"estimator {self.name} needs docagent.advantage.options.{missing[0]}")
        return parsed

    def compute(self, inputs: AdvantageInputs, options: Mapping[str, Any]) -> Advantages:
        """Call the function.

        Raises:
            UserError: an option is wrong, or the function's result is of a wrong shape or not finite.
        """
        result = self.function(inputs, **self.parse(options))
        for name in ("advantages", "returns"):
            value = getattr(result, name)
            if value.shape != inputs.mask.shape:
                raise UserError(
                    f"estimator {self.name}: {name} has shape {tuple(value.shape)} where "
                    f"{tuple(inputs.mask.shape)} is expected"
                )
            if not value[inputs.mask].isfinite().all():
                raise UserError(f"estimator {self.name}: {name} is not finite on a sampled token")
        return result


_ESTIMATORS: dict[str, Estimator] = {}


def register(name: str, *, needs: tuple[Need, ...] = ()) -> Callable[[Function], Function]:
    """Make an estimator known as `algorithm.adv_estimator=<name>`.

    The function gets one `AdvantageInputs` of the whole batch, sessions that failed left out, and as keyword
    arguments what `docagent.advantage.options` holds. A module of your own is imported in every process of a
    run when `docagent.modules` names it.

    Args:
        name: its name; one that verl itself uses is refused when a run starts.
        needs: what it reads beside rewards, masks and turns.

    Returns:
        A decorator that leaves the function as it is.

    Raises:
        UserError: another function has this name.
    """

    def decorate(function: Function) -> Function:
        known = _ESTIMATORS.get(name)
        if known is not None and _origin(known.function) != _origin(function):
            raise UserError(
                f"estimator {name!r} is registered already, by {'.'.join(_origin(known.function))}: "
                "choose another name"
            )
        _ESTIMATORS[name] = Estimator(name, function, frozenset(needs))
        return function

    return decorate


def registered_estimators() -> Mapping[str, Estimator]:
    """All that are registered in this process, by name."""
    return dict(sorted(_ESTIMATORS.items()))


def _origin(function: Function) -> tuple[str, str]:
    return function.__module__, function.__qualname__
