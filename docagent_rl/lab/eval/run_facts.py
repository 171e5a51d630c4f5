"""Facts of a run that its description (`run.json`) states."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.envs.views import SearchScope
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.systems import SYSTEMS, get_system

NONE = "none"
OWN_PROMPT = "the system's own in this package"
"""Stands for `docagent.prompt: null`."""
_PLAYS = "system"
"""`agent` of a run in which a model plays the recipe's system."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts of a run; `None` where its `run.json` does not say."""

    recipe: str | None = None
    model: str | None = None
    agent: str | None = None
    """The agent that stands in for a model in the recipe's system, such as an oracle."""
    retriever: str | None = None
    """Its model, or its kind."""
    text_retriever: str | None = None
    """The same of the retriever of texts beside images; `NONE` for none."""
    changes: tuple[str, ...] | None = None
    """Settings that differ from the recipe, `key=value`."""
    prompt: str | None = None
    """Name of a prompt of the package, path of a file, or `OWN_PROMPT`."""
    display: Mapping[str, Any] | None = None
    scope: str | None = None
    """`corpus`, or `document` where a question is asked of its own alone."""
    temperature: float | None = None

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> RunFacts:
        """Read the description of a run.

        The section `docagent` of its configuration may stand at any depth; without one `retriever`, `prompt`
        and `env` stand at the top. The environment that the player names goes before the configuration: a
        profile may lie over that.
        """
        section = _mapping(_first(manifest, "docagent")) or manifest
        player = _mapping(manifest.get("player"))
        env = _mapping(_mapping(player.get("environment")).get("env")) or _configured_env(section)
        texts, prompt, agent = section.get("text_retriever", ""), section.get("prompt"), manifest.get("agent")
        changes, scope = manifest.get("changes"), _name(_first(env, "scope"))
        if scope is None and env and section.get("system") in SYSTEMS:
            scope = SearchScope.DOCUMENT.value  # published systems without a choice
        told = None
        if isinstance(changes, Mapping):
            told = tuple(f"{key}={json.dumps(changes[key], ensure_ascii=False)}" for key in sorted(changes))
        heat = _first(_alone(player), "temperature")
        return cls(
            recipe=_name(manifest.get("recipe")),
            model=_model_name(manifest),
            agent=None if agent == _PLAYS else _name(agent),
            retriever=_name(section.get("retriever"), "model", "kind"),
            text_retriever=NONE if texts is None else _name(texts, "model", "kind"),
            changes=told,
            prompt=OWN_PROMPT if prompt is None and "prompt" in section else _name(prompt),
            display=_mapping(_first(env, "display")) or None,
            scope=scope,
            temperature=float(heat) if isinstance(heat, int | float) and not isinstance(heat, bool) else None,
        )


def agent_of(manifest: Mapping[str, Any]) -> str:
    """Return the name of the model that played, else of the player."""
    player = manifest.get("player")
    names = (
        _model_name(manifest), _name(player, "agent", "player", "name"), _name(manifest, "agent", "name")
    )  # fmt: skip
    return next((name for name in names if name), "unknown")


def extractor_of(manifest: Mapping[str, Any]) -> str:
    """Return the author of the short answers of a system with a role for that: a model, or the rule judge.

    It is `Author.SYSTEM` for a run whose description has no configuration.
    """
    section = _first(manifest, "docagent")
    if not isinstance(section, Mapping):
        return Author.SYSTEM.value
    role = _mapping(_mapping(section.get("roles")).get("extractor"))
    if not (role.get("backend") == "openai" or role.get("base_url")):
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
    holder = _alone(player) if isinstance(player, Mapping) else manifest
    found = _name(_first(holder, "model"), "model", "name", "path")
    return None if found is None else PurePath(found).name or found


def _alone(player: Mapping[str, Any]) -> dict[str, Any]:
    """Return a player without its environment, whose judges, roles and retrievers are not its own."""
    return {name: value for name, value in player.items() if name != "environment"}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


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
