"""The systems that can be trained, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from docagent_rl.actions.base import Grammar
from docagent_rl.config import explain
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.services import EnvServices
from docagent_rl.errors import UserError
from docagent_rl.prompts import PromptSpec, PromptTemplate, load_prompt


class EnvMaker(Protocol):
    """Makes the environment of one session."""

    def __call__(
        self, config: Any, services: EnvServices, prompt: PromptTemplate, *, validate: bool
    ) -> DocEnv:
        """A fresh environment; `validate` is true in validation and evaluation."""
        ...


@dataclass(frozen=True, slots=True)
class System:
    """A system: how it is configured, what its agent may do, and what it is paid for.

    Args:
        name: as in configuration files.
        summary: one line.
        config_type: pydantic model of its configuration, the section `docagent.env`.
        env: makes the environment of a session.
        make_grammar: makes the grammar from a configuration.
        prompt_spec: what a prompt file of the system must hold.
        default_prompt: the package's prompt for a configuration.
        max_turns: assistant turns of an episode at most.
        max_images: images of an episode at most.
    """

    name: str
    summary: str
    config_type: type[BaseModel]
    env: EnvMaker
    make_grammar: Callable[[Any], Grammar]
    prompt_spec: PromptSpec
    default_prompt: Callable[[Any], str]
    max_turns: Callable[[Any], int]
    max_images: Callable[[Any], int]

    def parse_config(self, data: Mapping[str, Any] | BaseModel) -> Any:
        """Validate plain data as the system's configuration; a configuration is returned as it is.

        Raises:
            UserError: a key is unknown or a value impossible; every problem with its key.
        """
        if isinstance(data, self.config_type):
            return data
        try:
            return self.config_type.model_validate(data)
        except ValidationError as error:
            raise UserError(explain(error, "docagent.env")) from error

    def load_prompt(
        self, config: Mapping[str, Any] | BaseModel, path: str | Path | None = None
    ) -> PromptTemplate:
        """The prompt of a configuration, or the user's own (`docagent.prompt`).

        Raises:
            UserError: the file is missing or unusable; the message names it and the part.
        """
        name = self.default_prompt(self.parse_config(config)) if path is None else str(path)
        return load_prompt(name, self.prompt_spec)

    def make_env(
        self,
        config: Mapping[str, Any] | BaseModel,
        services: EnvServices,
        *,
        prompt: str | Path | None = None,
        validate: bool = False,
    ) -> DocEnv:
        """A fresh environment for one session.

        Args:
            config: plain data, or what `parse_config` made of it.
            services: shared by all sessions of a process.
            prompt: a prompt file of the user's own.
            validate: the session belongs to a validation or an evaluation.

        Raises:
            UserError: the configuration or the prompt is unusable.
        """
        parsed = self.parse_config(config)
        return self.env(parsed, services, self.load_prompt(parsed, prompt), validate=validate)


def _vrag_rl() -> System:
    from docagent_rl.envs.vrag_rl import VRAG_PROMPT, VragEnv, make_grammar
    from docagent_rl.envs.vrag_rl_config import VragConfig

    return System(
        name="vrag_rl",
        summary="search a corpus of page images, zoom into the last one, answer (arXiv 2505.22019)",
        config_type=VragConfig,
        env=VragEnv,
        make_grammar=make_grammar,
        prompt_spec=VRAG_PROMPT,
        default_prompt=lambda config: config.prompt,
        max_turns=lambda config: config.assistant_turns,
        max_images=lambda config: config.max_images,
    )


def _from_module(name: str) -> Callable[[], System]:
    return lambda: importlib.import_module(f"docagent_rl.envs.{name}").system()


SYSTEMS: Mapping[str, Callable[[], System]] = {
    "alden": _from_module("alden"),
    "doc_v_star": _from_module("doc_v_star"),
    "mm_doc_r1": _from_module("mm_doc_r1"),
    "unidoc_rl": _from_module("unidoc_rl"),
    "vrag_rl": _vrag_rl,
}
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
