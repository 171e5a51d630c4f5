"""The base of every part of the configuration: strict, frozen, with defaults that may depend on a variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class VariantSection(Section):
    """A section whose keys, left out or `null`, take the value of a variant: paper or released code.

    A subclass has the tables in `variants` and a field `variant` with a default, an enumeration of strings.
    """

    variants: ClassVar[Mapping[Any, Mapping[str, Any]]]
    """Defaults of the keys, by variant."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        default = cls.model_fields["variant"].default
        chosen = data.get("variant") or default
        # an unknown variant is reported by its own field
        table = cls.variants[chosen if chosen in list(type(default)) else default]
        return cls.fill(table, data)

    @classmethod
    def fill(cls, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """`given` over the variant's `defaults`; a subclass may let the one depend on the other."""
        return filled(defaults, given)

    @classmethod
    def for_variant(cls, variant: str | None = None, **overrides: Any) -> Self:
        """The configuration of a variant with some keys changed, nested ones as nested mappings."""
        return cls.model_validate({"variant": variant, **overrides})


def filled(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` over `defaults`, mappings merged key by key; keys that are `None` count as left out."""
    merged = dict(defaults)
    for key, value in given.items():
        if isinstance(value, Mapping):
            default = defaults.get(key)
            merged[key] = filled(default if isinstance(default, Mapping) else {}, value)
        elif value is not None:
            merged[key] = value
    return merged


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` over `base`, nested mappings key by key.

    A section does not take the place of a plain value: that stays, to be refused by whoever validates it.
    """
    result = dict(base)
    for key, value in changes.items():
        before = result.get(key)
        if not isinstance(value, Mapping) or before is None:
            result[key] = value
        elif isinstance(before, Mapping):
            result[key] = merged(before, value)
    return result


def explain(error: ValidationError, prefix: str) -> str:
    """One line a problem, each naming the key as it is written in the recipe."""
    lines = []
    for problem in error.errors():
        key = ".".join([prefix, *(str(p) for p in problem["loc"])])
        if problem["type"] == "extra_forbidden":
            lines.append(f"{key}: unknown key")
        elif problem["type"] == "missing":
            lines.append(f"{key}: missing")
        else:
            # a whole section may hold addresses with their secrets
            got = "" if isinstance(problem["input"], Mapping) else f" (got {problem['input']!r})"
            lines.append(f"{key}: {problem['msg']}{got}")
    return "invalid configuration:\n  " + "\n  ".join(lines)
