"""The systems that can be trained, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from docagent_rl.actions.base import Grammar
from docagent_rl.configs import parse_config
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.services import EnvServices
from docagent_rl.errors import UserError


class EnvFactory(Protocol):
    """Makes the environment of one session."""

    def __call__(self, config: Any, services: EnvServices, *, validate: bool = False) -> DocEnv:
        """A fresh environment; `validate` is true in validation and evaluation."""
        ...


@dataclass(frozen=True, slots=True)
class System:
    """A system: how it is configured, what its agent may do, and what it is paid for.

    Args:
        name: as in configuration files.
        summary: one line.
        config_type: pydantic model of its configuration.
        make_env: makes the environment of a session from a `config_type` and the services.
        make_grammar: makes the grammar from a `config_type`.
        check: loads whatever files a configuration names, so that mistakes show before anything starts;
            raises `UserError`.
    """

    name: str
    summary: str
    config_type: type[BaseModel]
    make_env: EnvFactory
    make_grammar: Callable[[Any], Grammar]
    check: Callable[[Any], None]

    def configure(self, data: Mapping[str, Any], *, where: str = "docagent.env") -> BaseModel:
        """Validate plain data as the system's configuration and check the files it names.

        Args:
            data: nested mappings and plain values.
            where: the key that holds them, for messages.

        Raises:
            UserError: a key is unknown or a value impossible, or a file is unusable.
        """
        config = parse_config(self.config_type, data, where=where)
        self.check(config)
        return config


def _vrag_rl() -> System:
    from docagent_rl.envs.vrag_rl import VRAG_PROMPT, VragEnv, make_grammar
    from docagent_rl.envs.vrag_rl_config import VragConfig
    from docagent_rl.prompts import load_prompt

    def make_env(config: VragConfig, services: EnvServices, *, validate: bool = False) -> DocEnv:
        return VragEnv(config, services, validate=validate)

    def check(config: VragConfig) -> None:
        load_prompt(config.prompt, VRAG_PROMPT)

    return System(
        name="vrag_rl",
        summary="search a corpus of page images, zoom into the last one, answer (arXiv 2505.22019)",
        config_type=VragConfig,
        make_env=make_env,
        make_grammar=make_grammar,
        check=check,
    )


SYSTEMS: Mapping[str, Callable[[], System]] = {"vrag_rl": _vrag_rl}
"""The published systems; each is imported when asked for."""


def get_system(name: str) -> System:
    """A system by name, or by `package.module:ATTRIBUTE` for one of your own (a `System` instance).

    Raises:
        UserError: there is no such system.
    """
    if ":" in name:
        return _imported(name)
    try:
        return SYSTEMS[name]()
    except KeyError:
        raise UserError(
            f"there is no system {name!r}; known are {', '.join(sorted(SYSTEMS))}, "
            "or name your own as package.module:ATTRIBUTE"
        ) from None


def _imported(path: str) -> System:
    module, _, attribute = path.partition(":")
    try:
        system = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"system {path!r} cannot be imported: {error}") from error
    if not isinstance(system, System):
        raise UserError(f"system {path!r} is a {type(system).__name__}, expected docagent_rl.systems.System")
    return system
