"""Finds keys of a configuration that nobody reads."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig

from docagent_rl.base.errors import UserError
from docagent_rl.config import plain

OPEN = ("ray_kwargs.ray_init", "docagent", "hydra", "model_engine")
"""Sections with rules of their own: `ray.init`, ours, Hydra's, and the name of the engine group."""


@cache
def reference() -> Mapping[str, Any]:
    """Return verl's trainer configuration, every key of it; the same object for every caller."""
    return _verl("_generated_ppo_trainer")


@cache
def sft_reference() -> Mapping[str, Any]:
    """Return the configuration of verl's supervised trainer, with the key that our data set reads."""
    found = _verl("sft_trainer_engine")
    for entry in found.pop("defaults"):
        if isinstance(entry, Mapping):
            ((place, name),) = entry.items()
            group, _, key = place.partition("@")
            found[key] = _verl(f"{group}/{name}")
    found["data"]["store"] = None
    return found


def _verl(name: str) -> dict[str, Any]:
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("verl")
    path = Path(spec.origin).parent / "trainer" / "config" / f"{name}.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def refuse_unknown_keys(config: DictConfig) -> None:
    """Refuse keys that neither verl nor this package reads.

    Raises:
        UserError: names them, each with the nearest known one.
    """
    written = plain(config, resolve=False)
    written.pop("hydra", None)
    if problems := unknown_keys(written):
        raise UserError("unknown configuration keys, which nothing would read:\n  " + "\n  ".join(problems))


def unknown_keys(config: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> list[str]:
    """Return a sentence for each key that neither verl's configuration nor the dataclass of a section has.

    Args:
        config: the composed configuration as a plain mapping.
        known: the configuration to compare with; by default that of verl's trainer.
    """
    return list(_walk(config, reference() if known is None else known, ""))


def _walk(config: Mapping[str, Any], known: Mapping[str, Any], prefix: str) -> Iterator[str]:
    fields = _fields(known.get("_target_"))
    for key, value in config.items():
        path = f"{prefix}{key}"
        if path in OPEN:
            continue
        if key not in known and key not in fields:
            near = difflib.get_close_matches(str(key), [*known, *fields], n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            yield f"{path}: unknown key{hint}"
        elif isinstance(value, Mapping) and isinstance(known.get(key), Mapping) and known[key]:
            yield from _walk(value, known[key], f"{path}.")


def _fields(target: str | None) -> set[str]:
    if not isinstance(target, str):
        return set()
    module, _, name = target.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    return {f.name for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
