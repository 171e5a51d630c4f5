"""Facts about a run, read from its manifest (`run.json`)."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from docagent_rl.envs.recorded import mapping
from docagent_rl.envs.views import SearchScope

_OWN_PROMPT = "the system's own in this package"


def facts_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts on which a run's numbers depend, by name, as far as its manifest has them.

    `overrides` are the settings with which its command changed the recipe.
    """
    section = mapping(mapping(manifest.get("config")).get("docagent"))
    player = mapping(manifest.get("player"))
    environment = mapping(player.get("environment"))
    env = mapping(environment.get("env"))
    retrievers = mapping(environment.get("retrievers"))
    display = mapping(env.get("display")).items()
    scope = mapping(env.get("search")).get("scope") or env.get("scope")
    facts = {
        "model": agent_of(manifest),
        "retriever": _retriever(retrievers.get("docagent.retriever")),
        "retriever of texts": _retriever(retrievers.get("docagent.text_retriever")),
        "prompt": (section.get("prompt") or _OWN_PROMPT) if section else None,
        "size of pages": ", ".join(
            f"{name} {value}" for name, value in display if value is not None
        ),
        "pages searched": (scope or SearchScope.DOCUMENT.value) if env else None,
        "temperature": temperature_of(manifest),
        "overrides": " ".join(map(str, manifest.get("overrides") or ())),
    }
    return {name: str(value) for name, value in facts.items() if value not in (None, "")}


def temperature_of(manifest: Mapping[str, Any]) -> float | None:
    """Return the temperature of the model that played; `None` if the manifest has none."""
    player = mapping(manifest.get("player"))
    for part in (player.get("model"), player.get("sampling")):
        if isinstance(found := mapping(part).get("temperature"), int | float):
            return float(found)
    return None


def agent_of(manifest: Mapping[str, Any]) -> str:
    """Return the name of the model that played, or the last part of its path, otherwise the
    player's name.
    """
    player = mapping(manifest.get("player"))
    model = player.get("model")
    while isinstance(model, Mapping):  # a teacher's entry nests it next to that of the grounder
        model = model.get("model") or model.get("teacher")
    name = model or player.get("player")
    return PurePath(name).name if isinstance(name, str) and name.strip() else "unknown"


def expected_trajectories(manifest: Mapping[str, Any]) -> int | None:
    """Return the number of trajectories of a complete run; `None` if the manifest lacks it."""
    count = mapping(manifest.get("questions")).get("count")
    times = manifest.get("trajectories")
    return count * times if type(count) is int and type(times) is int else None


def _retriever(section: Any) -> str | None:
    found = mapping(section)
    return found.get("model") or found.get("kind")
