"""Facts that the description of a run (`run.json`) states about how it was played."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.envs.sections import SearchScope
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.systems import SYSTEMS, get_system

NONE = "none"
OWN_PROMPT = "the system's own in this package"
"""Stands for `docagent.prompt: null`."""
_PLAYS = "system"
"""`agent` of a run in which a model plays the recipe's system."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """How a run was played; `None` where its `run.json` does not say.

    Args:
        recipe: whose configuration it was played with.
        model: that played.
        agent: what stands in for a model in the recipe's system, such as an oracle.
        retriever: its model, or its kind.
        text_retriever: the same of what finds texts beside images; `NONE` where nothing does.
        changes: settings of the recipe that the run has otherwise, `key=value`.
        prompt: name of a prompt of the package, path of a file, or `OWN_PROMPT`.
        display: how pages were shown.
        scope: `corpus`, or `document` where a question is asked of its own alone.
        temperature: of the player's sampling.
    """

    recipe: str | None = None
    model: str | None = None
    agent: str | None = None
    retriever: str | None = None
    text_retriever: str | None = None
    changes: tuple[str, ...] | None = None
    prompt: str | None = None
    display: Mapping[str, Any] | None = None
    scope: str | None = None
    temperature: float | None = None

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> RunFacts:
        """Read the description of a run.

        Its keys `recipe`, `changes`, `agent` and `player` are read, and the section `docagent` of its
        configuration, which may stand at any depth; without one `retriever`, `prompt` and `env` at the top.
        The environment that the player names goes before the configuration: a profile may lie over that.
        """
        section = _first(manifest, "docagent")
        section = section if isinstance(section, Mapping) else manifest
        env = _played_env(manifest.get("player")) or _configured_env(section)
        texts, prompt = section.get("text_retriever", ""), section.get("prompt")
        changes, display, agent = (
            manifest.get("changes"),
            _first(env, "display"),
            _name(manifest.get("agent")),
        )
        return cls(
            recipe=_name(manifest.get("recipe")),
            model=_model_name(manifest),
            agent=None if agent == _PLAYS else agent,
            retriever=_name(section.get("retriever"), "model", "kind"),
            text_retriever=NONE if texts is None else _name(texts, "model", "kind"),
            changes=_key_values(changes) if isinstance(changes, Mapping) else None,
            prompt=OWN_PROMPT if prompt is None and "prompt" in section else _name(prompt),
            display=display if isinstance(display, Mapping) else None,
            scope=_scope(section, env),
            temperature=_temperature(manifest.get("player")),
        )


def agent_of(manifest: Mapping[str, Any]) -> str:
    """Return who played: the name of the model, else that of the player."""
    player = manifest.get("player")
    names = (
        _model_name(manifest), _name(player, "agent", "player", "name"), _name(manifest, "agent", "name")
    )  # fmt: skip
    return next((name for name in names if name), "unknown")


def extractor_of(manifest: Mapping[str, Any]) -> str:
    """Return who shortened the answers of a system with a role for that: a model, or the rule in its place.

    Of a run whose description has no configuration it is not known which (`Author.SYSTEM`).
    """
    section = _first(manifest, "docagent")
    if not isinstance(section, Mapping):
        return Author.SYSTEM.value
    roles = section.get("roles")
    role = roles.get("extractor") if isinstance(roles, Mapping) else None
    if not isinstance(role, Mapping) or not (role.get("backend") == "openai" or role.get("base_url")):
        return Author.RULE.value
    return _name(role, "model") or Author.SYSTEM.value


def expected_trajectories(manifest: Mapping[str, Any]) -> int | None:
    """Return the trajectories of a whole run; `None` where its description does not say."""
    questions, times = manifest.get("questions"), manifest.get("trajectories")
    count = questions.get("count") if isinstance(questions, Mapping) else questions
    return count * times if type(count) is int and type(times) is int else None


def _model_name(manifest: Mapping[str, Any]) -> str | None:
    """Return the name of the model that played, or the last part of its path."""
    player = manifest.get("player")
    holder = _without_environment(player) if isinstance(player, Mapping) else manifest
    found = _name(_first(holder, "model"), "model", "name", "path")
    return None if found is None else PurePath(found).name or found


def _without_environment(player: Mapping[str, Any]) -> dict[str, Any]:
    """Return a player alone: models of judges, roles and retrievers are not its own."""
    return {name: value for name, value in player.items() if name != "environment"}


def _first(data: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key at any depth, nearest to the top first; `None` where there is none."""
    waiting: deque[Mapping[str, Any]] = deque([data])
    while waiting:
        here = waiting.popleft()
        if here.get(name) is not None:
            return here[name]
        waiting.extend(value for value in here.values() if isinstance(value, Mapping))
    return None


def _name(value: Any, *keys: str) -> str | None:
    """Return a text, or the first text under one of some keys."""
    if isinstance(value, Mapping):
        return next((found for key in keys if (found := _name(value.get(key)))), None)
    return value if isinstance(value, str) and value.strip() else None


def _key_values(changes: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(changes.items()))


def _played_env(player: Any) -> Mapping[str, Any] | None:
    environment = player.get("environment") if isinstance(player, Mapping) else None
    env = environment.get("env") if isinstance(environment, Mapping) else None
    return env if isinstance(env, Mapping) else None


def _configured_env(section: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the environment's keys, those that are null with the values of the variant."""
    env = section.get("env")
    if not isinstance(env, Mapping):
        return {}
    # of published systems alone: another name would run code of whoever wrote the description
    if section.get("system") not in SYSTEMS:
        return env
    try:
        return get_system(str(section["system"])).parse_config(dict(env)).model_dump(mode="json")
    except UserError:
        return env


def _scope(section: Mapping[str, Any], env: Mapping[str, Any]) -> str | None:
    """Return where searches look; published systems without a choice look into the question's document."""
    found = _name(_first(env, "scope"))
    if found is None and env and section.get("system") in SYSTEMS:
        return SearchScope.DOCUMENT.value
    return found


def _temperature(player: Any) -> float | None:
    found = _first(_without_environment(player), "temperature") if isinstance(player, Mapping) else None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
