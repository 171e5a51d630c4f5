"""The entry of a key of EasyR1: where it goes here, and what becomes of its value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class TranslationKind(StrEnum):
    """The fate of a key of EasyR1 here."""

    SAME = "same"
    """Its value goes to another name."""
    CONVERTED = "converted"
    """Its value goes to another name in another unit or spelling."""
    ELSEWHERE = "elsewhere"
    """Its name or purpose has another meaning or place here; the value is not carried over."""
    NONE = "none"
    """There is no counterpart."""


class NoCounterpart(Exception):  # noqa: N818 - not an error: the key is reported
    """A value that nothing here stands for; the message says why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """A configuration of EasyR1 with all its defaults, and the recipe here that it changes."""

    values: Mapping[str, Any]
    """The value of every key, by its name with dots."""
    base: str
    """The name of the recipe that is built on."""
    row_tokens: int
    """The longest row of that recipe, in tokens: prompt and response."""
    is_alden: bool = False
    """True for a configuration of ALDEN's copy of EasyR1."""

    def get(self, key: str) -> Any:
        """Return the value of a key."""
        return self.values[key]

    @property
    def rows_are(self) -> int:
        """The length of a padded row of EasyR1 in tokens: prompt and response."""
        return self.get("data.max_prompt_length") + self.get("data.max_response_length")

    @property
    def is_on_alden(self) -> bool:
        """True if the recipe is one of ALDEN's system, whose environment has ALDEN's keys."""
        return self.base.startswith("alden_")


Converter = Callable[[Any, Theirs], Mapping[str, Any]]
"""Returns values by the names of our keys; raises `NoCounterpart` for a value without one."""


@dataclass(frozen=True, slots=True)
class KeyTranslation:
    """The entry of a key of EasyR1."""

    key: str
    kind: TranslationKind
    ours: tuple[str, ...] = ()
    """The keys here that get its value, or that have its purpose."""
    note: str = ""
    """The treatment of the value; for `ELSEWHERE` and `NONE` why, and what to do."""
    converter: Converter | None = None

    def translated(self, theirs: Theirs) -> Mapping[str, Any]:
        """Return the values of our keys; empty if EasyR1's value says to take the default.

        Raises:
            NoCounterpart: nothing here stands for the value.
        """
        value = theirs.get(self.key)
        if self.converter is not None:
            return self.converter(value, theirs)
        if self.kind is not TranslationKind.SAME or value is None:
            return {}
        return dict.fromkeys(self.ours, value)


def same(key: str, *ours: str, note: str = "") -> KeyTranslation:
    """Return the entry of a key whose value is kept; null leaves the recipe's."""
    return KeyTranslation(key, TranslationKind.SAME, ours, note)


def converted(key: str, converter: Converter, note: str, *ours: str) -> KeyTranslation:
    """Return the entry of a key whose value is converted."""
    return KeyTranslation(key, TranslationKind.CONVERTED, ours, note, converter)


def elsewhere(key: str, note: str, *ours: str) -> KeyTranslation:
    """Return the entry of a key that has another meaning or place here."""
    return KeyTranslation(key, TranslationKind.ELSEWHERE, ours, note)


def none(key: str, note: str) -> KeyTranslation:
    """Return the entry of a key without a counterpart."""
    return KeyTranslation(key, TranslationKind.NONE, (), note)
