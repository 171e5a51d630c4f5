"""The base of every part of the configuration: strict, frozen, with defaults that may depend on a
variant.
"""

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from docagent_rl.base.errors import UserError

_SFT_TRAINERS = ("sft_trainer", "sft_trainer_ray")
"""Files of verl's supervised trainers, which `python -m` and torchrun run."""
_fine_tuning: ContextVar[bool | None] = ContextVar("fine_tuning", default=None)


_MERGE = "tag:yaml.org,2002:merge"
_PLAINLY = {"extra_forbidden": "unknown key", "missing": "missing"}
ModelT = TypeVar("ModelT", bound=BaseModel)


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, numbers are finite, values never
    change.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class VariantSection(Section):
    """A section whose keys, left out or `null`, take the value of a variant: paper or released
    code.

    A subclass has the tables in `variants` and a field `variant` with a default, one of their
    names.
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
        return cls.fill(cls.variants[chosen if chosen in list(cls.variants) else default], data)

    @classmethod
    def fill(cls, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Merge `given` over the variant's `defaults`; a subclass may let the one depend on the
        other.
        """
        return filled(defaults, given)

    @classmethod
    def for_variant(cls, variant: str | None = None, **overrides: Any) -> Self:
        """Return the configuration of a variant with some keys changed, nested ones as nested
        mappings.
        """
        return cls.model_validate({"variant": variant, **overrides})


def filled(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `given` over `defaults`, key by key; keys that are `None` count as left out."""
    result = dict(defaults)
    for key, value in given.items():
        if isinstance(value, Mapping):
            default = defaults.get(key)
            result[key] = filled(default if isinstance(default, Mapping) else {}, value)
        elif value is not None:
            result[key] = value
    return result


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `changes` over `base`, nested mappings key by key.

    A section does not take the place of a plain value: that stays, to be refused by whoever
    validates it.
    """
    result = dict(base)
    for key, value in changes.items():
        before = result.get(key)
        if not isinstance(value, Mapping) or before is None:
            result[key] = value
        elif isinstance(before, Mapping):
            result[key] = merged(before, value)
    return result


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping, of which the last would count without a
    word.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != _MERGE:
                name = (key.tag, key.value if isinstance(key.value, str) else id(key))
                if name in seen:
                    problem = f"the key {key.value!r} stands there twice: keep one"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep=deep)


def read_yaml(file: Path | Traversable, example: str, name: str | None = None) -> dict[str, Any]:
    """Read a file of keys and values; `name` is what messages call it, by default its path."""
    name = name or str(file)
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), _UniqueKeys)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{name}: cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{name}: expected keys and values, e.g. `{example}`")
    return data


def validated(kind: type[ModelT], data: Any, prefix: str) -> ModelT:
    """Validate data; a `UserError` has one line a problem, naming the key as it is written in the
    recipe.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        lines = [
            f"{'.'.join([prefix, *map(str, each['loc'])])}: {_said(each)}"
            for each in error.errors()
        ]
        raise UserError("\n  ".join(["invalid configuration:", *lines])) from error


def _said(problem: Mapping[str, Any]) -> str:
    # a whole section may hold addresses with their secrets
    got = "" if isinstance(problem["input"], Mapping) else f" (got {problem['input']!r})"
    return _PLAINLY.get(problem["type"], f"{problem['msg']}{got}")


def fine_tunes() -> bool:
    """Return whether Hydra composes for verl's supervised trainer: as `composing_for` says, or what
    runs.
    """
    if (chosen := _fine_tuning.get()) is not None:
        return chosen
    running = getattr(sys.modules.get("__main__"), "__file__", None)
    return running is not None and Path(running).stem in _SFT_TRAINERS


@contextmanager
def composing_for(*, fine_tuning: bool) -> Generator[None]:
    """Compose as verl's supervised trainer would, or as its others, whatever runs."""
    token = _fine_tuning.set(fine_tuning)
    try:
        yield
    finally:
        _fine_tuning.reset(token)
