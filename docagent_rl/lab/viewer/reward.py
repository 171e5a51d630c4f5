"""The reward of a run, by its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import merged
from docagent_rl.rewards.formula import Formula
from docagent_rl.systems import SYSTEMS, get_system

_JUDGE = ("kind", "model", "threshold", "prompt")
_ROLE = ("backend", "model")


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a run; runs whose rewards are equal have numbers on one scale.

    Args:
        settings: by which terms are computed, judge and roles among them.
    """

    system: str
    formula: Formula
    settings: Mapping[str, Any]

    def described(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {"text": str(self.formula), "weights": {**self.formula.weights, **self.formula.tokens}}


def reward_of(config: DictConfig) -> Reward | None:
    """Return the reward of a configuration.

    `None` where that names none: it is empty, cannot be parsed, or its system is not the package's.
    """
    name = OmegaConf.select(config, "docagent.system")
    if name not in SYSTEMS:  # another name would run code of whoever wrote the configuration
        return None
    system = get_system(name)
    try:
        env = _section(config, "env")
        if OmegaConf.select(config, "docagent.profile") == "cpu":
            env = merged(env, merged(system.small, _section(config, "env_cpu")))
        parsed = system.parse_config(env)
        judge, roles = _section(config, "judge"), _section(config, "roles")
    except (UserError, OmegaConfBaseException):
        return None
    if system.formula is None:
        return None
    settings = parsed.model_dump(mode="json", include=set(system.reward_keys))
    settings["judge"] = {key: judge.get(key) for key in _JUDGE} if system.judged else None
    settings["roles"] = {
        name: {key: roles.get(name, {}).get(key) for key in _ROLE} for name in map(str, system.roles)
    }
    return Reward(name, system.formula(parsed), settings)


def _section(config: DictConfig, key: str) -> dict[str, Any]:
    found = OmegaConf.select(config, f"docagent.{key}")
    # OmegaConf declares all that a container of any kind may become
    return {} if found is None else cast("dict[str, Any]", OmegaConf.to_container(found, resolve=True))
