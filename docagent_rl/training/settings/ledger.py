"""The ledger of verl's keys: how a run of this package treats each of them (`verl_keys.yaml`).

A key that is not read, or that breaks the run if it is changed, is refused with a reason and a
replacement. Otherwise most of these keys would be silently accepted and do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from omegaconf import AnyNode, DictConfig, OmegaConf

from docagent_rl.config import plain_section

RL_FILE = "verl_keys.yaml"
SFT_FILE = "verl_sft_keys.yaml"
MODE = "trainer.v1.trainer_mode"
OURS = "docagent_"
"""Prefix of this package's trainer modes, followed by the name of verl's mode."""
MODES = ("sync", "colocate_async", "separate_async")
TRAINER_MODES = tuple(f"{OURS}{mode}" for mode in MODES)
"""The trainer modes of this package."""
_ABSENT = object()


class KeyKind(StrEnum):
    """The treatment of a key."""

    READ = "read"
    """verl or this package reads it."""
    SET = "set"
    """Recipes set it to the value that a run needs."""
    REPLACED = "replaced"
    """Another key is read instead."""
    WITHOUT_EFFECT = "without effect"
    """It is never read."""
    REFUSED = "refused"
    """It is read, and changing it breaks the run."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """The entry of a key."""

    kind: KeyKind
    why: str = ""
    """The reason, as a clause that follows "because"."""
    instead: str = ""
    """The key to set instead."""
    values: Sequence[Any] | None = None
    """The allowed values; `None`: any if the key is read, otherwise only verl's default."""
    modes: Sequence[str] = ()
    """The only trainer modes that read it; empty: all of them."""
    rule: bool = False
    """True if `combinations` decides, because it depends on other keys."""
    note: str = ""
    """A remark about a key that is read."""

    def problem(self, key: str, value: Any, mode: str) -> str | None:
        """Return a sentence about a value that differs from verl's default; None if it is
        allowed.
        """
        given = f"{key}={'null' if value is None else value}"
        if self.modes and mode in MODES and mode not in self.modes:
            named = " or ".join(f"{OURS}{each}" for each in self.modes)
            return (
                f"{given}: it is only read with {MODE}={named}, but the mode is {OURS}{mode}: "
                "remove it"
            )
        if self.rule:
            return None
        if self.values is not None:
            if value in self.values:
                return None
            allowed = " or ".join(str(each) for each in self.values)
            return f"{given}: it must be {allowed}, because {self.why}"
        match self.kind:
            case KeyKind.READ:
                return None
            case KeyKind.SET:
                return f"{given}: it must not be changed, because {self.why}"
            case KeyKind.REPLACED:
                return f"{given}: it is not read, because {self.why}: set {self.instead}"
            case KeyKind.WITHOUT_EFFECT:
                return f"{given}: it has no effect, because {self.why}: remove it"
        remedy = f"set {self.instead}" if self.instead else "remove it"
        return f"{given}: it cannot be used, because {self.why}: {remedy}"


@dataclass(frozen=True)
class Ledger:
    """All entries: those of single keys, and those of whole sections (`section.`)."""

    keys: Mapping[str, KeyEntry]
    sections: Mapping[str, KeyEntry]

    def entry(self, key: str) -> KeyEntry | None:
        """Return the entry for a key: its own, that of the nearest section, or that of its name."""
        if key in self.keys:
            return self.keys[key]
        section = key
        while section:
            section = section.rpartition(".")[0]
            if f"{section}." in self.sections:
                return self.sections[f"{section}."]
        return self.keys.get(f"*.{key.rpartition('.')[2]}")

    def problems(self, config: DictConfig, known: Mapping[str, Any]) -> Iterator[str]:
        """Name each changed key that must not be changed.

        `known` is verl's configuration, which contains the defaults with unresolved interpolations.
        """
        written = plain_section(config, resolve=False)
        mode = str(OmegaConf.select(config, MODE)).removeprefix(OURS)
        defaults = dict(leaves(known))
        added = {
            key: _ABSENT for key in self.keys if key not in defaults and not key.startswith("*")
        }
        for key, default in {**defaults, **added}.items():
            entry = self.entry(key)
            if entry is None or (
                entry.kind is KeyKind.READ and entry.values is None and not entry.modes
            ):
                continue
            given = _find(written, key)
            if given is _ABSENT or given == default:
                continue
            value = _resolved(OmegaConf.select(config, key))
            if default is not _ABSENT and value == _in_place(config, key, default):
                continue
            if problem := entry.problem(key, value, mode):
                yield problem


@cache
def ledger(file: str = RL_FILE) -> Ledger:
    """Read a ledger of this package.

    Raises:
        ValueError: a key has two entries, or an entry lacks something that its kind requires.
    """
    text = (files("docagent_rl.training.settings") / file).read_text(encoding="utf-8")
    return parse(yaml.safe_load(text))


def parse(groups: Sequence[Mapping[str, Any]]) -> Ledger:
    """Parse the groups of entries in a ledger file.

    Raises:
        ValueError: a key has two entries, or an entry lacks something that its kind requires.
    """
    keys: dict[str, KeyEntry] = {}
    sections: dict[str, KeyEntry] = {}
    for group in groups:
        fields = dict(group)
        named = fields.pop("section")
        names = str(fields.pop("keys")).split()
        entry = KeyEntry(kind=KeyKind(fields.pop("kind")), **fields)
        for section in [named] if isinstance(named, str) else named:
            for name in names:
                key = f"{section}.{name}"
                _check(key, entry)
                place = sections if name.endswith("*") else keys
                key = key.removesuffix("*")
                if key in place:
                    raise ValueError(f"{key} has two entries: keep one")
                place[key] = entry
    return Ledger(keys, sections)


def _check(key: str, entry: KeyEntry) -> None:
    restricted = entry.kind is not KeyKind.READ or entry.values is not None
    if restricted and not entry.why:
        raise ValueError(f"{key}: `why` is missing")
    if entry.kind is KeyKind.REPLACED and not entry.instead:
        raise ValueError(f"{key}: `instead` is missing")
    if entry.kind is KeyKind.READ and key.endswith("*"):
        raise ValueError(f"{key}: keys that are read must be listed one by one")


def leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a nested mapping with their values; an empty mapping is a value."""
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _find(written: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key as it is written, or `_ABSENT`."""
    found: Any = written
    for name in key.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return _ABSENT
        found = found[name]
    return found


def _in_place(config: DictConfig, key: str, default: Any) -> Any:
    """Return the value of a default in a configuration; the default may refer to other keys."""
    if not (isinstance(default, str) and "${" in default):
        return default
    above, _, name = key.rpartition(".")
    section = OmegaConf.select(config, above)
    # as `section[name]` is read, without a copy of the section that holds the default
    return _resolved(section._resolve_with_default(name, AnyNode(default, name, section)))


def _resolved(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
