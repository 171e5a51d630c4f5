"""Agents in the environment of a recipe: the changes of its configuration that each asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import merged
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.sections import SearchScope
from docagent_rl.envs.system import System
from docagent_rl.lab.eval.agent import Agent
from docagent_rl.systems import get_system

_PACKAGE = f"{__name__.rpartition('.')[0]}.baselines"
_ENV, _PROMPT = "docagent.env", "docagent.prompt"


_SEARCHLESS = frozenset({Agent.QUESTION_ONLY, Agent.WHOLE_DOCUMENT})


def split_overrides(agent: Agent, overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return overrides of the recipe, and those of the environment that a baseline plays in.

    A baseline's keys are not the recipe's, so that Hydra cannot know them.

    Args:
        agent: who plays.
        overrides: as on Hydra's command line.
    """
    if not agent.baseline:
        return list(overrides), []
    own = [each for each in overrides if each.lstrip("+").startswith((f"{_ENV}.", f"{_PROMPT}="))]
    return [each for each in overrides if each not in own], own


def appoint(run: DictConfig, agent: Agent, own: Sequence[str] = ()) -> None:
    """Have an agent play with a recipe's documents, retriever, judge, model and context.

    A baseline of one turn gets all of the context but the turn for its prompt. Searches look where the
    recipe's do; pages are as large as the recipe shows them, and as texts where it shows no images.

    Args:
        run: the composed configuration, changed in place.
        agent: who plays.
        own: overrides of a baseline's environment and prompt (`split_overrides`).

    Raises:
        UserError: an override cannot be read, or the context has no room for a prompt.
    """
    with open_dict(run):
        if agent.baseline:
            _appoint_baseline(run, agent, own)


def _appoint_baseline(run: DictConfig, agent: Agent, own: Sequence[str]) -> None:
    parsed = DocAgentConfig.parse(plain(run.docagent))
    system = get_system(parsed.system)
    env = merged(_environment(agent, system, system.parse_config(parsed.env)), _given(own, _ENV))
    section = run.docagent
    section.tiny_model = str(section.tiny_model)  # of the recipe's system
    section.system = f"{_PACKAGE}.systems:{agent.name}"
    section.env, section.env_cpu = OmegaConf.create(env), OmegaConf.create({})
    section.prompt = _given(own, "docagent").get("prompt")
    section.roles = OmegaConf.create({})
    section.text_retriever = None
    if agent in _SEARCHLESS:
        section.retriever = OmegaConf.create({"kind": f"{_PACKAGE}.systems:Unasked"})
    if agent is not Agent.REACT:
        _one_turn(run, agent, parsed.rollout.turn_tokens)


def _environment(agent: Agent, system: System, config: Any) -> dict[str, Any]:
    """Return a baseline's environment, as far as the recipe's says."""
    found: dict[str, Any] = {}
    scope = getattr(getattr(config, "search", None), "scope", SearchScope.DOCUMENT)
    found["scope"] = SearchScope(scope).value
    if isinstance(display := getattr(config, "display", None), DisplayRule):
        found["display"] = display.model_dump()
    if agent in (Agent.WHOLE_DOCUMENT, Agent.REACT):
        found["form"] = "image" if system.max_images(config) else "text"
    if agent is Agent.REACT:
        found["max_turns"] = system.max_turns(config)
    return found


def _one_turn(run: DictConfig, agent: Agent, turn: int) -> None:
    context = int(run.data.max_prompt_length) + int(run.data.max_response_length)
    if turn >= context:
        raise UserError(
            f"{agent.value}: docagent.rollout.turn_tokens={turn} leaves no room for a prompt in "
            f"data.max_prompt_length + data.max_response_length = {context} tokens"
        )
    run.data.max_prompt_length, run.data.max_response_length = context - turn, turn


def _given(overrides: Sequence[str], section: str) -> dict[str, Any]:
    """Return the values of overrides below a section, by key."""
    prefix = f"{section}."
    chosen = [text for each in overrides if (text := each.lstrip("+")).startswith(prefix)]
    try:
        return plain(OmegaConf.from_dotlist([each.removeprefix(prefix) for each in chosen]))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"{' '.join(overrides)}: {error}") from error
