"""The registry of advantage estimators, built-in ones and the user's own, and their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.base.errors import UserError

REQUIRED = inspect.Parameter.empty
"""Marks an option without a default."""


def options_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's options with their defaults: its named parameters after the first.

    Raises:
        UserError: the function does not take the batch, or an option cannot be passed by keyword.
    """
    where = f"estimator {name}: {function.__module__}.{getattr(function, '__qualname__', function)}"
    first = None
    others = []
    if parameters := list(inspect.signature(function).parameters.values()):
        first, *others = parameters
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        raise UserError(f"{where} must take the batch, an AdvantageInputs, as its first argument")
    for parameter in others:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UserError(
                f"{where}: option {parameter.name} cannot be passed by keyword: remove the '/'"
            )
    return {
        p.name: p.default for p in others if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }


def option_type(name: str, function: Callable[..., Any], option: str) -> Any:
    """Return the type annotation of an option; other annotations are not evaluated.

    Raises:
        UserError: the annotation uses a name that does not exist at run time.
    """
    annotation = inspect.signature(function).parameters[option].annotation
    if annotation is REQUIRED:
        return Any
    # Other annotations of the function may not be evaluable, for example if the type of the batch
    # is only imported for type checkers: only this one has to be.
    alone = SimpleNamespace(__annotations__={option: annotation})
    module = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(alone, globalns=module, include_extras=True)[option]
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        raise UserError(
            f"estimator {name}: the type {annotation!r} of option {option} cannot be evaluated "
            f"({error}): import the names it uses outside of `if TYPE_CHECKING:`"
        ) from error


Function = Callable[..., Advantages]
"""`(inputs: AdvantageInputs, option=default, ...) -> Advantages`; options may be keyword-only."""

OPTIONS = "docagent.advantage.options"
CLEARED = (
    f"{OPTIONS}=null clears the options that a recipe sets for another estimator; add your own "
    f"options after it, as +{OPTIONS}.NAME=VALUE"
)
"""Advice on clearing options, for error messages."""


class Need(Enum):
    """An input that an estimator reads in addition to rewards, masks and turns."""

    VALUES = "values"
    """A critic (`critic.enable=true`)."""
    EMBEDDINGS = "embeddings"
    """One vector per trajectory (`docagent.advantage.embedder`)."""
    PREFIXES = "prefixes"
    """One vector for what a trajectory did before each of its turns, from the same embedder."""
    TEXTS = "texts"
    """The text of each trajectory."""


@dataclass(frozen=True, slots=True)
class Estimator:
    """A registered estimator.

    Attributes:
        name: its name in `algorithm.adv_estimator`.
        needs: the inputs that it requires.
    """

    name: str
    function: Function
    needs: frozenset[Need]

    @property
    def embeds(self) -> bool:
        """Return whether it reads vectors from the embedder."""
        return bool(self.needs & {Need.EMBEDDINGS, Need.PREFIXES})

    @property
    def options(self) -> dict[str, Any]:
        """Return its options with their defaults."""
        return options_of(self.name, self.function)

    def parse(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the options of a configuration to the types that the function declares.

        An unknown option with the value None is ignored, as it has been cleared.

        Raises:
            UserError: an option is unknown or missing, or its value has the wrong type.
        """
        known = self.options
        parsed = {}
        for name, value in options.items():
            if name in known:
                parsed[name] = self._typed(name, value)
            elif value is not None:
                raise UserError(
                    f"{OPTIONS}.{name}: estimator {self.name} has no such option; "
                    f"its options: {', '.join(known) or 'none'}; {CLEARED}"
                )
        missing = [n for n, default in known.items() if default is REQUIRED and n not in parsed]
        if missing:
            raise UserError(
                f"estimator {self.name} needs {OPTIONS}.{missing[0]}: add "
                f"+{OPTIONS}.{missing[0]}=..."
            )
        return parsed

    def _typed(self, option: str, value: Any) -> Any:
        try:
            return TypeAdapter(option_type(self.name, self.function, option)).validate_python(value)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise UserError(
                f"{OPTIONS}.{option}={value!r} of estimator {self.name}: {reason}"
            ) from error

    def compute(self, inputs: AdvantageInputs, options: Mapping[str, Any]) -> Advantages:
        """Call the function, check its result, and set it to zero outside the mask.

        Losses multiply by the mask, and NaN times 0 is NaN.

        Raises:
            UserError: an option is wrong, or the function's result has the wrong type or shape or
                is not finite.
        """
        result = self.function(inputs, **self.parse(options))
        self.check_form(result, inputs)
        self.check(result, inputs)
        return result.within(inputs.mask)

    def check_form(self, result: Any, inputs: AdvantageInputs) -> None:
        """Check the type and the shapes of a result.

        Raises:
            UserError: the result is not an `Advantages` of the batch's shape.
        """
        if not isinstance(result, Advantages):
            kind = "nothing" if result is None else f"a {type(result).__name__}"
            raise UserError(
                f"estimator {self.name} returned {kind}: it must return "
                "Advantages(advantages, returns), each with the shape of inputs.mask"
            )
        for name in ("advantages", "returns"):
            value = getattr(result, name)
            if not isinstance(value, Tensor) or not value.is_floating_point():
                kind = value.dtype if isinstance(value, Tensor) else f"a {type(value).__name__}"
                raise UserError(
                    f"estimator {self.name}: {name} is {kind}: it must be a floating-point tensor"
                )
        for name in ("advantages", "returns", "value_mask"):
            value = getattr(result, name)
            if value is not None and value.shape != inputs.mask.shape:
                raise UserError(
                    f"estimator {self.name}: {name} has shape {tuple(value.shape)}, but "
                    f"{tuple(inputs.mask.shape)} is expected"
                )

    def check(self, result: Advantages, inputs: AdvantageInputs) -> None:
        """Check the numbers of a result that has passed `check_form`.

        Raises:
            UserError: a number is not finite on a sampled token.
        """
        for name in ("advantages", "returns"):
            if not getattr(result, name)[inputs.mask].isfinite().all():
                raise UserError(f"estimator {self.name}: {name} is not finite on a sampled token")


_ESTIMATORS: dict[str, Estimator] = {}


def register(name: str, *, needs: tuple[Need, ...] = ()) -> Callable[[Function], Function]:
    """Register an estimator as `algorithm.adv_estimator=<name>`.

    The function receives one `AdvantageInputs` for the whole batch, and the entries of
    `docagent.advantage.options` as keyword arguments. `compress` and `trajectory_table` drop
    copied rows and rows without sampled tokens. Before a run the function is called once on a
    small made-up batch. A module of your own is imported in every process of a run if
    `docagent.modules` names it.

    Args:
        name: the estimator's name; a name that verl itself uses is refused when a run starts.
        needs: the inputs it reads in addition to rewards, masks and turns.

    Raises:
        UserError: another function has this name, or this function does not take a batch and
            keyword options.
    """

    def decorate(function: Function) -> Function:
        options_of(name, function)  # raises for a function that cannot be called
        known = _ESTIMATORS.get(name)
        if known is not None and _origin(known.function) != _origin(function):
            raise UserError(
                f"estimator {name!r} is already registered by "
                f"{'.'.join(_origin(known.function))}: choose another name"
            )
        _ESTIMATORS[name] = Estimator(name, function, frozenset(needs))
        return function

    return decorate


def registered_estimators() -> Mapping[str, Estimator]:
    """Return all estimators that are registered in this process, by name."""
    return dict(sorted(_ESTIMATORS.items()))


def _origin(function: Function) -> tuple[str, str]:
    return function.__module__, getattr(function, "__qualname__", repr(function))
