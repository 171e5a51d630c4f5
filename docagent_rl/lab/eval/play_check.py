"""Configurations of sessions outside the trainer: composed from recipes, and checked before they are used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import UserError
from docagent_rl.checks.check import PlannedRun, When, run_checks
from docagent_rl.checks.configuration import refuse_unknown_keys
from docagent_rl.checks.environment import settle_environment
from docagent_rl.checks.preflight import CHECKS
from docagent_rl.checks.recipe_check import composed
from docagent_rl.checks.recipe_list import Kind, recipe_kind
from docagent_rl.checks.service_checks import check_services
from docagent_rl.config import DocAgentConfig
from docagent_rl.lab.eval.agent import Agent
from docagent_rl.lab.eval.agents import appoint, split_overrides
from docagent_rl.records.record import Record
from docagent_rl.rollout.env_resources import open_shown_store


def play_config(recipe: str, agent: Agent, overrides: Sequence[str] = ()) -> DictConfig:
    """What an agent plays by.

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
        _near(run)
        appoint(run, agent, own)
        refuse_unknown_keys(run)
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    return run


def check_play(run: DictConfig, records: Iterable[Record]) -> DocAgentConfig:
    """Check what can be checked before a session is played.

    Args:
        run: of `play_config`.
        records: the questions.

    Returns:
        The section `docagent`.

    Raises:
        UserError: an unknown key, a missing store or prompt, models that nobody chose, or questions about
            none of the store's documents.
        InfrastructureError: a judge, a role or a retriever does not answer.
    """
    planned = PlannedRun.of(run)
    parsed = planned.section
    run_checks(CHECKS, When.PLAY, planned)
    store = parsed.open_store()
    open_shown_store(parsed, store)
    documents = {record.doc_id for record in records}
    if not any(doc_id in store for doc_id in documents):
        some = ", ".join(sorted(documents)[:3])
        raise UserError(
            f"{store} holds none of the {len(documents)} documents that are asked about ({some}): ingest "
            f"them (`docagent-rl ingest PDFS --store {parsed.store}`), or name their store by docagent.store="
        )
    check_services(planned)
    return parsed


def _near(run: DictConfig) -> None:
    """Have retrievers of actors search here."""
    with open_dict(run):
        for key in ("docagent.retriever", "docagent.text_retriever"):
            section = OmegaConf.select(run, key)
            if isinstance(section, DictConfig):
                _search_here(section)


def _search_here(section: DictConfig) -> None:
    if section.get("backend") == "ray":
        section.backend = "local"
    parts = section.get("parts")
    for part in parts.values() if isinstance(parts, DictConfig) else ():
        _search_here(part)
