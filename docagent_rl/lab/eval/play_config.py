"""Configurations of trajectories outside the trainer: composed from recipes, and checked before they are
used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import PlannedRun, When, run_checks
from docagent_rl.checks.environment import settle_environment
from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import Kind, recipe_kind
from docagent_rl.checks.service_checks import SERVICE_CHECKS, check_services
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.envs.roles import RoleBackend
from docagent_rl.lab.eval.agent import Agent
from docagent_rl.lab.eval.agents import appoint, split_overrides
from docagent_rl.rollout.env_resources import open_shown_store
from docagent_rl.samples.sample import Sample
from docagent_rl.systems import get_system
from docagent_rl.training.settings.keys import refuse_unknown_keys

_LENGTHS = ("data.max_prompt_length", "data.max_response_length", "docagent.rollout.turn_tokens")
_ELSEWHERE = ("display.", "search.scope", "reward.")
"""Keys that are no change: sizes of pages and scope are told by themselves, rewards are no number of a
benchmark."""


def play_config(recipe: str, agent: Agent, overrides: Sequence[str] = ()) -> DictConfig:
    """Compose the configuration that an agent plays by.

    Searches run in this process where a recipe has actors for them: there is no Ray outside of a run.

    Args:
        recipe: its name.
        agent: who plays.
        overrides: as on Hydra's command line; a baseline's environment takes those of `docagent.env`.

    Raises:
        UserError: there is no such recipe, it is one of fine-tuning, or Hydra cannot compose it.
    """
    if recipe_kind(recipe) is Kind.SFT:
        raise UserError(
            f"{recipe} fine-tunes and plays nothing: name a recipe of reinforcement learning whose system is "
            f"played, {recipe.removeprefix('sft_')} for one"
        )
    rest, own = split_overrides(agent, overrides)
    run = composed(recipe, rest)
    try:
        settle_environment(run)
        with open_dict(run):
            for key in ("docagent.retriever", "docagent.text_retriever"):
                _search_here(OmegaConf.select(run, key))
        appoint(run, agent, own)
        refuse_unknown_keys(run)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    return run


def check_play(run: DictConfig, samples: Iterable[Sample]) -> DocAgentConfig:
    """Check what can be checked before a trajectory is played, and return the section `docagent`.

    Args:
        run: of `play_config`.
        samples: the questions.

    Raises:
        UserError: an unknown key, a missing store or prompt, models that nobody chose, or questions about
            none of the store's documents.
        InfrastructureError: a judge, a role or a retriever does not answer.
    """
    planned = PlannedRun.of(run)
    parsed = planned.section
    run_checks(SERVICE_CHECKS, When.PLAY, planned)
    store = parsed.open_store()
    open_shown_store(parsed, store)
    documents = {sample.doc_id for sample in samples}
    if not any(doc_id in store for doc_id in documents):
        some = ", ".join(sorted(documents)[:3])
        raise UserError(
            f"{store} holds none of the {len(documents)} documents that are asked about ({some}): ingest "
            f"them (`docagent-rl ingest PDFS --store {parsed.store}`), or name their store by docagent.store="
        )
    check_services(planned)
    return parsed


def changes_of(run: DictConfig, recipe: DictConfig) -> dict[str, Any]:
    """Return settings that trajectories depend on and that differ from the recipe, by key, with the value.

    Retriever, prompt, sampling and judge are left out: reports tell them by themselves.

    Args:
        run: the composed configuration.
        recipe: the same without overrides.

    Raises:
        UserError: the environment's section cannot be parsed.
    """
    ours, theirs = _settings(run), _settings(recipe)
    return {key: value for key, value in sorted(ours.items()) if value != theirs.get(key)}


def _search_here(section: Any) -> None:
    """Have retrievers of actors search in this process."""
    if not isinstance(section, DictConfig):
        return
    if section.get("backend") == "ray":
        section.backend = "local"
    parts = section.get("parts")
    for part in parts.values() if isinstance(parts, DictConfig) else ():
        _search_here(part)


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
