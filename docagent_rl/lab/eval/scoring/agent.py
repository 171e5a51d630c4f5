"""Who played a run, and shortened its answers, by its description (`run.json`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from docagent_rl.lab.eval.scoring.experts import Author


def agent_of(manifest: Mapping[str, Any]) -> str:
    """Who played, in a word: the model, else the player."""
    player = manifest.get("player")
    if (model := model_name(manifest)) is not None:
        return model
    return (named(player, "agent", "player", "name") or named(manifest, "agent", "name")) or "unknown"


def model_name(manifest: Mapping[str, Any]) -> str | None:
    """The model that played: its name, or the last part of its path."""
    player = manifest.get("player")
    holder = itself(player) if isinstance(player, Mapping) else manifest
    found = named(first(holder, "model"), "model", "name", "path")
    return None if found is None else PurePath(found).name or found


def itself(player: Mapping[str, Any]) -> dict[str, Any]:
    """A player without what it plays in: models of judges, roles and retrievers are not its own."""
    return {name: value for name, value in player.items() if name != "environment"}


def extractor_of(manifest: Mapping[str, Any]) -> str:
    """Who shortened the answers of a system with a role for that: a model, or the rule that stands in for it.

    Of a run whose description has no configuration it is not known which (`Author.SYSTEM`).
    """
    section = first(manifest, "docagent")
    if not isinstance(section, Mapping):
        return Author.SYSTEM.value
    roles = section.get("roles")
    role = roles.get("extractor") if isinstance(roles, Mapping) else None
    if not isinstance(role, Mapping) or not (role.get("backend") == "openai" or role.get("base_url")):
        return Author.RULE.value
    return named(role, "model") or Author.SYSTEM.value


def first(data: Mapping[str, Any], name: str) -> Any:
    """The value of a key at any depth, nearest to the top first; `None` where there is none."""
    waiting: deque[Mapping[str, Any]] = deque([data])
    while waiting:
        here = waiting.popleft()
        if here.get(name) is not None:
            return here[name]
        waiting.extend(value for value in here.values() if isinstance(value, Mapping))
    return None


def named(value: Any, *names: str) -> str | None:
    """A text, or the first text under one of some keys."""
    if isinstance(value, Mapping):
        return next((found for name in names if (found := named(value.get(name)))), None)
    return value if isinstance(value, str) and value.strip() else None
