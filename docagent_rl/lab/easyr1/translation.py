"""A configuration of EasyR1 in the keys of this package, with what cannot be carried over."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import UserError
from docagent_rl.lab.easyr1.entry import KeyTranslation, NoCounterpart, Theirs, TranslationKind
from docagent_rl.lab.easyr1.table import entries

_OPEN = ("worker.actor.model.override_config", "worker.critic.model.override_config")
_MAPPINGS = (
    *_OPEN,
    "worker.rollout.val_override_config",
    "worker.reward.reward_function_kwargs",
    "worker.reward.score_function_kwargs",
)
"""Keys whose value is a mapping."""


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys of EasyR1 at a commit, as its dataclasses declare them."""

    commit: str
    defaults: Mapping[str, Any]
    """The default of every key that can be set, by its name with dots."""
    own: Sequence[str]
    """Keys that EasyR1 sets itself."""
    alden: Mapping[str, Any]
    """The defaults of the keys that ALDEN's copy adds."""


@cache
def known_keys() -> KnownKeys:
    """Return the keys of EasyR1, from `easyr1_keys.yaml`."""
    text = (files("docagent_rl.lab.easyr1") / "easyr1_keys.yaml").read_text(encoding="utf-8")
    read = yaml.safe_load(text)
    return KnownKeys(
        read["commit"], dict(_flat(read["keys"])), read["own"], dict(_flat(read["alden"]))
    )


@dataclass(frozen=True, slots=True)
class Easyr1Config:
    """A configuration of EasyR1 as it would run there."""

    path: Path
    given: Mapping[str, Any]
    """The keys that the file or the overrides name."""
    values: Mapping[str, Any]
    """All keys, with EasyR1's defaults."""
    unknown: Mapping[str, str]
    """Keys that EasyR1 does not have, with a hint."""
    is_alden: bool
    """True for a configuration of ALDEN's copy."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A key that was carried over."""

    entry: KeyTranslation
    value: Any
    changes: Mapping[str, Any]
    """The values of our keys."""
    is_default: bool
    """True if EasyR1's default applies, because neither the file nor an override names the key."""


@dataclass(slots=True)
class Translation:
    """The fates of the keys of a configuration."""

    changes: dict[str, Any] = field(default_factory=dict)
    """The values of our keys."""
    carried: list[Carried] = field(default_factory=list)
    elsewhere: list[tuple[KeyTranslation, Any]] = field(default_factory=list)
    """Keys that have another meaning or place here, with their values."""
    without: list[tuple[str, Any, str]] = field(default_factory=list)
    """Keys, or values, without a counterpart, with why and what to do."""


def read_config(path: Path, overrides: Sequence[str] = ()) -> Easyr1Config:
    """Read a configuration of EasyR1 with overrides as on its command line.

    Raises:
        UserError: the file or an override cannot be read, or a section is not one.
    """
    unreadable = (OSError, ValueError, yaml.YAMLError, OmegaConfBaseException)
    try:
        file = OmegaConf.load(path)
        changes = OmegaConf.from_dotlist(list(overrides))
        # a list has nothing to merge with
        merged = OmegaConf.merge(file, changes) if isinstance(file, DictConfig) else file
        content: Any = OmegaConf.to_container(merged, resolve=True)
    except unreadable as error:
        raise UserError(f"{path}: cannot be read as a configuration of EasyR1: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected EasyR1's sections data, algorithm, worker and trainer")
    given = dict(_flat(content))
    keys = known_keys()
    is_alden = any(key in keys.alden for key in given)
    defaults = {**keys.defaults, **(keys.alden if is_alden else {})}
    known = {key: value for key, value in given.items() if key in defaults}
    unknown = {key: _hint(key, defaults) for key in given if key not in (*defaults, *keys.own)}
    _check_types(path, known, defaults)
    return Easyr1Config(path, known, {**defaults, **known}, unknown, is_alden)


def translate(config: Easyr1Config, base_name: str, base: DictConfig) -> Translation:
    """Translate a configuration to changes of a recipe.

    EasyR1's defaults are carried over, too, but not ALDEN's: its recipe stands for them. Keys that
    the file names come last, as some have two names.

    Args:
        config: EasyR1's configuration.
        base_name: the recipe that is changed.
        base: that recipe, composed.
    """
    row_tokens = base.data.max_prompt_length + base.data.max_response_length
    theirs = Theirs(config.values, base_name, row_tokens, config.is_alden)
    found = Translation()
    keys = config.given if config.is_alden else config.values
    for key in sorted(keys, key=lambda key: key in config.given):
        _translate(found, entries()[key], theirs, is_default=key not in config.given)
    return found


def _translate(
    found: Translation, entry: KeyTranslation, theirs: Theirs, *, is_default: bool
) -> None:
    value = theirs.get(entry.key)
    if entry.kind in (TranslationKind.ELSEWHERE, TranslationKind.NONE):
        if is_default:
            return
        if entry.kind is TranslationKind.ELSEWHERE:
            found.elsewhere.append((entry, value))
        else:
            found.without.append((entry.key, value, entry.note))
        return
    try:
        changes = entry.translated(theirs)
    except NoCounterpart as reason:
        found.without.append((entry.key, value, str(reason)))
        return
    found.changes |= changes
    if changes:
        found.carried.append(Carried(entry, value, changes, is_default))


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key not in _MAPPINGS:
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _hint(key: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    version = f"EasyR1 at {known_keys().commit[:7]} does not have it"
    return f"{version}; did you mean {near[0]}?" if near else version


def _check_types(path: Path, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse values of another kind than EasyR1's default, which EasyR1 would refuse, too."""
    for key, value in given.items():
        default = defaults[key]
        number = isinstance(default, int | float) and not isinstance(default, bool)
        wrong = (
            (isinstance(default, bool) and not isinstance(value, bool))
            or (number and (isinstance(value, bool) or not isinstance(value, int | float)))
            or (isinstance(default, Mapping) and not isinstance(value, Mapping))
        )
        if wrong and not (value is None and number):
            kind = "true or false" if isinstance(default, bool) else "a number"
            expected = "a mapping" if isinstance(default, Mapping) else kind
            raise UserError(f"{path}: {key}={value!r}: expected {expected}")
