"""What an estimator's function takes: the batch first, then its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, get_type_hints

from docagent_rl.base.errors import UserError

REQUIRED = inspect.Parameter.empty
"""Default of an option that has none."""


def options_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """The options of a function with their defaults: all parameters with a name after the first.

    Args:
        name: of the estimator, for messages.
        function: `(inputs, option=default, ...)`; options may stand behind a `*`.

    Raises:
        UserError: the function does not take the batch, or an option cannot be given by its name.
    """
    where = f"estimator {name}: {function.__module__}.{getattr(function, '__qualname__', function)}"
    first, others = None, []
    if parameters := list(inspect.signature(function).parameters.values()):
        first, *others = parameters
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        raise UserError(f"{where} must take the batch, an AdvantageInputs, as its first argument")
    for parameter in others:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UserError(f"{where}: option {parameter.name} cannot be given by its name: remove the '/'")
    return {p.name: p.default for p in others if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def option_type(name: str, function: Callable[..., Any], option: str) -> Any:
    """The type that an option is annotated with; other annotations of the function are not looked at.

    Raises:
        UserError: the annotation names something that is not there when the program runs.
    """
    annotation = inspect.signature(function).parameters[option].annotation
    if annotation is REQUIRED:
        return Any
    known = getattr(inspect.unwrap(function), "__globals__", {})
    stub = SimpleNamespace(__annotations__={option: annotation})
    try:
        return get_type_hints(stub, globalns=known, include_extras=True)[option]
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        raise UserError(
            f"estimator {name}: the type {annotation!r} of option {option} cannot be read ({error}): import "
            "what it names outside of `if TYPE_CHECKING:`"
        ) from error
