"""Base classes for configuration sections: strict, frozen, with defaults that can depend on a
variant.
"""

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import did_you_mean

_SFT_TRAINERS = ("sft_trainer", "sft_trainer_ray")
"""File names of verl's supervised trainers, which `python -m` and torchrun start."""
_fine_tuning: ContextVar[bool | None] = ContextVar("fine_tuning", default=None)


_MERGE = "tag:yaml.org,2002:merge"
ModelT = TypeVar("ModelT", bound=BaseModel)


class Section(BaseModel):
    """A part of the configuration: no unknown keys, only finite numbers, immutable values."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class VariantSection(Section):
    """A section whose missing or `null` keys default to a variant's values: paper or released code.

    A subclass defines the tables in `variants`, and a field `variant` whose default is one of their
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
        """Merge `given` over the variant's `defaults`; subclasses may adapt one to the other."""
        return filled(defaults, given)

    @classmethod
    def for_variant(cls, variant: str | None = None, **overrides: Any) -> Self:
        """Return the configuration of a variant with overrides; nested keys are nested mappings."""
        return cls.model_validate({"variant": variant, **overrides})


def filled(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `given` over `defaults` key by key; a key with the value `None` counts as missing."""
    result = dict(defaults)
    for key, value in given.items():
        if isinstance(value, Mapping):
            default = defaults.get(key)
            result[key] = filled(default if isinstance(default, Mapping) else {}, value)
        elif value is not None:
            result[key] = value
    return result


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `changes` over `base`, and nested mappings key by key.

    A mapping never replaces a plain value in `base`: the plain value stays, so that validation
    reports it.
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
    """A YAML loader that refuses duplicate keys, of which PyYAML silently uses the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag != _MERGE:
                name = (key.tag, key.value if isinstance(key.value, str) else id(key))
                if name in seen:
                    problem = f"the key {key.value!r} occurs twice in one mapping: keep one"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep=deep)


def read_yaml(file: Path | Traversable, example: str, name: str | None = None) -> dict[str, Any]:
    """Read a YAML mapping; error messages call the file `name`, by default its path.

    Raises:
        UserError: the file cannot be read, is not YAML, or does not contain a mapping.
    """
    name = name or str(file)
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), _UniqueKeys)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{name}: cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise UserError(f"{name}: expected keys and values, e.g. `{example}`")
    return data


def validated(kind: type[ModelT], data: Any, prefix: str) -> ModelT:
    """Validate data against a model.

    Raises:
        UserError: the data is invalid; has one line per problem, with the key as the recipe
            spells it.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        lines = [
            f"{'.'.join([prefix, *map(str, each['loc'])])}: {_said(kind, each, prefix)}"
            for each in error.errors()
        ]
        raise UserError("\n  ".join(["invalid configuration:", *lines])) from error


def _said(kind: type[BaseModel], problem: Mapping[str, Any], prefix: str) -> str:
    """Return what is wrong with a key; `kind` is the model of the section `prefix`."""
    if problem["type"] == "missing":
        return "missing"
    if problem["type"] == "extra_forbidden":
        *sections, key = map(str, problem["loc"])
        section = "".join(f"{each}." for each in (prefix, *sections))
        return f"unknown key{did_you_mean(key, keys_in_section(kind, sections), section)}"
    # a whole section is not printed: it may contain addresses with credentials
    got = "" if isinstance(problem["input"], Mapping) else f" (got {problem['input']!r})"
    return f"{problem['msg']}{got}"


def keys_in_section(kind: type[BaseModel], sections: Sequence[str]) -> list[str]:
    """Return the keys that a section inside a model may have.

    There are none if it may have any key, or if there is no such section.

    `sections` are the names of the sections from the model to that one, the outermost first.
    """
    types: list[Any] = [kind]
    for name in sections:
        models = [model for each in types for model in _models_in(each)]
        fields = [model.model_fields for model in models]
        inside = [each[name].annotation for each in fields if name in each]
        if not (inside or any(map(_is_mapping, types))):
            return []
        # the name of an entry of a mapping, such as that of a role, is not a field
        types = inside or models
    if any(map(_is_mapping, types)):
        return []
    models = [model for each in types for model in _models_in(each)]
    return sorted({name for model in models for name in model.model_fields})


def _is_mapping(annotation: Any) -> bool:
    """Return whether a type such as `dict[str, Model] | None` includes mappings."""
    parts = get_args(annotation)
    return get_origin(annotation) is dict or any(map(_is_mapping, parts))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models in a type such as `Model | None` or `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def fine_tunes() -> bool:
    """Return whether Hydra composes for verl's supervised trainer.

    `composing_for` decides; outside of it, the program that is running.
    """
    if (chosen := _fine_tuning.get()) is not None:
        return chosen
    running = getattr(sys.modules.get("__main__"), "__file__", None)
    return running is not None and Path(running).stem in _SFT_TRAINERS


@contextmanager
def composing_for(*, fine_tuning: bool) -> Generator[None]:
    """Compose as for verl's supervised trainer, or as for its others, whatever program runs."""
    token = _fine_tuning.set(fine_tuning)
    try:
        yield
    finally:
        _fine_tuning.reset(token)
