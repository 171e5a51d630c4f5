"""Configurations whose defaults depend on the variant: paper or released code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
