"""What a run sets otherwise than its recipe: it parts the run's numbers from those of the recipe's paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.envs.roles import RoleBackend
from docagent_rl.systems import get_system

_LENGTHS = ("data.max_prompt_length", "data.max_response_length", "docagent.rollout.turn_tokens")
_ELSEWHERE = ("display.", "search.scope", "reward.")
"""Sizes of pages and scope are told by themselves; rewards are no number of a benchmark."""


def changes_of(run: DictConfig, recipe: DictConfig) -> dict[str, Any]:
    """Settings that sessions depend on and that differ, by key, with the run's value.

    Retriever, prompt, sampling and judge are left out: reports tell them by themselves.

    Args:
        run: the composed configuration.
        recipe: the same without overrides.

    Raises:
        UserError: the environment's section cannot be parsed.
    """
    ours, theirs = _settings(run), _settings(recipe)
    return {key: value for key, value in sorted(ours.items()) if value != theirs.get(key)}


def _settings(run: DictConfig) -> dict[str, Any]:
    parsed = DocAgentConfig.parse(plain(run.docagent))  # with what a profile puts over the section
    env = get_system(parsed.system).parse_config(parsed.env).model_dump(mode="json")
    found = {f"docagent.env.{key}": value for key, value in _flat(env) if not key.startswith(_ELSEWHERE)}
    for name, role in parsed.roles.items():
        # an endpoint has to be named, which is no change
        stands_in = role.backend not in (None, RoleBackend.OPENAI)
        found[f"docagent.roles.{name.value}.backend"] = role.backend if stands_in else None
        found[f"docagent.roles.{name.value}.model"] = role.model
    return found | {key: OmegaConf.select(run, key) for key in _LENGTHS}


def _flat(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
