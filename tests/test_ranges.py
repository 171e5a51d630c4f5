"""Every number of the configuration has a range, and values outside it are refused."""

import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

import annotated_types
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from docagent_rl.advantages import Estimator, registered_estimators
from docagent_rl.advantages.registry import option_type
from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section
from docagent_rl.checks.sft_check import SftSection
from docagent_rl.config import DocAgentConfig
from docagent_rl.systems import SYSTEMS, get_system

LOWER = (annotated_types.Ge, annotated_types.Gt, annotated_types.Interval)


def numbers(
    annotation: Any, bounds: list[Any], where: str, above: tuple[type, ...]
) -> Iterator[tuple]:
    """Yield each number in a type with its bounds: `(where, int or float, bounds)`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        kind, *added = get_args(annotation)
        yield from numbers(kind, [*bounds, *added], where, above)
    elif annotation in (int, float):
        yield where, annotation, bounds
    elif origin in (typing.Union, types.UnionType):
        for kind in get_args(annotation):
            yield from numbers(kind, bounds, where, above)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from fields(annotation, where, above)
    elif origin is not Literal:
        for kind in get_args(annotation):
            yield from numbers(kind, [], f"{where}[]", above)


def fields(model: type[BaseModel], where: str, above: tuple[type, ...] = ()) -> Iterator[tuple]:
    """Yield the numbers of a section and of the sections within it, except a section of its own
    type.
    """
    if model not in above:
        assert model.model_config.get("allow_inf_nan") is False, f"{where}: {model} takes infinity"
        for name, field in model.model_fields.items():
            yield from numbers(
                field.annotation, list(field.metadata), f"{where}.{name}", (*above, model)
            )


def bounded(bounds: list[Any]) -> bool:
    listed = [
        each
        for bound in bounds
        for each in (bound.metadata if isinstance(bound, FieldInfo) else [bound])
    ]
    return any(isinstance(bound, LOWER) for bound in listed)


def own_estimators() -> dict[str, Estimator]:
    """Return this package's estimators, since other tests register more."""
    return {
        name: estimator
        for name, estimator in registered_estimators().items()
        if estimator.function.__module__.startswith("docagent_rl.")
    }


def all_numbers() -> Iterator[tuple]:
    """Yield every number that a user may set: sections, environments of the five systems, options
    of estimators.
    """
    yield from fields(DocAgentConfig, "docagent")
    yield from fields(SftSection, "docagent of a supervised recipe")
    for name in SYSTEMS:
        yield from fields(get_system(name).config_type, f"docagent.env of {name}")
    for name, estimator in own_estimators().items():
        for option in estimator.options:
            kind = option_type(name, estimator.function, option)
            yield from numbers(kind, [], f"docagent.advantage.options.{option} of {name}", ())


def test_every_number_has_a_lower_bound():
    found = list(all_numbers())
    assert len(found) > 150
    assert [where for where, _, bounds in found if not bounded(bounds)] == []


def test_a_number_without_a_range_is_found():
    class Loose(Section):
        weight: float
        many: list[int] | None = None
        either: Annotated[int, annotated_types.Ge(1)] | Literal[-1] = 1

    found = {where: bounded(bounds) for where, _, bounds in fields(Loose, "env")}
    assert found == {"env.weight": False, "env.many[]": False, "env.either": True}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_no_number_is_other_than_finite(value):
    for where, kind, bounds in all_numbers():
        if kind is float and "options" in where:
            with pytest.raises(ValidationError):
                TypeAdapter(Annotated[(kind, *bounds)]).validate_python(value)

    class Weight(Section):
        weight: float

    with pytest.raises(ValidationError, match="finite"):
        Weight(weight=value)


OPTIONS = [
    (name, option, value)
    for name, estimator in own_estimators().items()
    for option, value in {"eps": -1, "tol": -1e-9, "temperature": 0}.items()
    if option in estimator.options
]


@pytest.mark.parametrize(("name", "option", "value"), OPTIONS)
def test_an_option_that_would_turn_advantages_round_is_refused(name, option, value):
    """With eps=-1 the divisor of a group's advantages is negative if its rewards are close."""
    estimator = registered_estimators()[name]
    said = rf"options\.{option}={value} of estimator {name}: Input should be greater"
    with pytest.raises(UserError, match=said):
        estimator.parse({option: value})
