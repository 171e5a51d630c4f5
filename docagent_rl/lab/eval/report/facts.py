"""What the description of a run says about how it was played; what it does not say is not known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.envs.sections import SearchScope
from docagent_rl.lab.eval.scoring.agent import first, itself, model_name, named
from docagent_rl.systems import SYSTEMS, get_system

NONE = "none"
OWN_PROMPT = "the system's own in this package"
"""What `docagent.prompt: null` means."""
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
        What the player says of its environment goes before the configuration: a profile may lie over that.
        """
        section = first(manifest, "docagent")
        section = section if isinstance(section, Mapping) else manifest
        env = _played(manifest.get("player")) or _environment(section)
        texts = section.get("text_retriever", "")
        changes = manifest.get("changes")
        prompt = section.get("prompt")
        if prompt is None and "prompt" in section:
            prompt = OWN_PROMPT
        display = first(env, "display")
        agent = named(manifest.get("agent"))
        return cls(
            recipe=named(manifest.get("recipe")),
            model=model_name(manifest),
            agent=None if agent == _PLAYS else agent,
            retriever=named(section.get("retriever"), "model", "kind"),
            text_retriever=NONE if texts is None else named(texts, "model", "kind"),
            changes=_listed(changes) if isinstance(changes, Mapping) else None,
            prompt=named(prompt),
            display=display if isinstance(display, Mapping) else None,
            scope=_scope(section, env),
            temperature=_temperature(manifest.get("player")),
        )


def _listed(changes: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(changes.items()))


def _played(player: Any) -> Mapping[str, Any] | None:
    """The environment's keys as sessions had them, where the player says."""
    environment = player.get("environment") if isinstance(player, Mapping) else None
    env = environment.get("env") if isinstance(environment, Mapping) else None
    return env if isinstance(env, Mapping) else None


def _environment(section: Mapping[str, Any]) -> Mapping[str, Any]:
    """The environment's keys, those that are null with the values of the variant."""
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
    """Where searches look; published systems without a choice look into the question's document."""
    found = named(first(env, "scope"))
    if found is None and env and section.get("system") in SYSTEMS:
        return SearchScope.DOCUMENT.value
    return found


def _temperature(player: Any) -> float | None:
    found = first(itself(player), "temperature") if isinstance(player, Mapping) else None
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
