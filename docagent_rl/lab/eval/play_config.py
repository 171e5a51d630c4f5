"""Configurations that agents play by outside the trainer, composed from recipes and checked."""

from collections.abc import Iterable, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import merged
from docagent_rl.checks.check import PlannedRun, When, refuse_for, run_checks
from docagent_rl.checks.configuration import SERVICE_CHECKS, check_services
from docagent_rl.checks.environment import settle_environment, settle_folders, settle_reward_file
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.recipe_list import TrainerKind, recipe_kind
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.documents.display import DisplayRule
from docagent_rl.envs.system import System
from docagent_rl.envs.views import SearchScope
from docagent_rl.lab.eval.choices import Agent
from docagent_rl.rollout.env_resources import open_shown_store
from docagent_rl.samples.sample import Sample
from docagent_rl.systems import get_system
from docagent_rl.training.settings.keys import key_problems

_BASELINES = f"{__name__.rpartition('.')[0]}.baselines.systems"
_ENV = "docagent.env"
_PROMPT = "docagent.prompt"


def play_config(recipe: str, agent: Agent, overrides: Sequence[str] = ()) -> DictConfig:
    """Compose the configuration that an agent plays by.

    Searches run in this process where a recipe has actors for them: there is no Ray outside of a
    run. The overrides of `docagent.env` and `docagent.prompt` are a baseline's own: Hydra does not
    know its keys.

    Raises:
        UserError: there is no such recipe, it is one of fine-tuning, or Hydra cannot compose it.
    """
    if recipe_kind(recipe) is TrainerKind.SFT:
        raise UserError(
            f"{recipe} fine-tunes and plays nothing: name a recipe of reinforcement learning whose "
            "system is "
            f"played, {recipe.removeprefix('sft_')} for one"
        )
    own = [
        each
        for each in overrides
        if agent.baseline and each.lstrip("+").startswith((f"{_ENV}.", f"{_PROMPT}="))
    ]
    run = composed_recipe(recipe, [each for each in overrides if each not in own])
    try:
        settle_environment(run)
        settle_reward_file(run)
        settle_folders(run)
        with open_dict(run):
            for key in ("docagent.retriever", "docagent.text_retriever"):
                _search_here(OmegaConf.select(run, key))
        appoint(run, agent, own)
        refuse_for(key_problems(run))
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    return run


def appoint(run: DictConfig, agent: Agent, own: Sequence[str] = ()) -> None:
    """Have an agent play with a recipe's documents, retriever, judge, model and context.

    A baseline of one turn gets all of the context but the turn for its prompt. Searches look where
    the recipe's do; pages are as large as the recipe shows them, and as texts where it shows no
    images.

    The configuration is changed in place; `own` has the overrides of a baseline's environment and
    prompt.

    Raises:
        UserError: an override cannot be read, or the context has no room for a prompt.
    """
    if not agent.baseline:
        return
    with open_dict(run):
        section = run.docagent
        parsed = DocAgentConfig.parse(plain_section(section))
        system = get_system(parsed.system)
        env = _environment(agent, system, system.parse_config(parsed.env))
        section.tiny_model = str(section.tiny_model)  # of the recipe's system
        section.system = f"{_BASELINES}:{agent.name}"
        section.env = OmegaConf.create(merged(env, _values(own, _ENV)))
        section.env_cpu = OmegaConf.create({})
        section.prompt = _values(own, "docagent").get("prompt")
        section.roles = OmegaConf.create({})
        section.text_retriever = None
        if agent in (Agent.QUESTION_ONLY, Agent.WHOLE_DOCUMENT):
            section.retriever = OmegaConf.create({"kind": f"{_BASELINES}:Unasked"})
        if agent is Agent.REACT:
            return
        turn = parsed.rollout.turn_tokens
        context = int(run.data.max_prompt_length) + int(run.data.max_response_length)
        if turn >= context:
            raise UserError(
                f"{agent.value}: docagent.rollout.turn_tokens={turn} leaves no room for a prompt "
                "in "
                f"data.max_prompt_length + data.max_response_length = {context} tokens"
            )
        run.data.max_prompt_length = context - turn
        run.data.max_response_length = turn


def check_play(run: DictConfig, samples: Iterable[Sample]) -> DocAgentConfig:
    """Check a `play_config` before a trajectory is played, and return its section `docagent`.

    Raises:
        UserError: an unknown key, a missing store or prompt, models that nobody chose, or questions
            about none of the store's documents.
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
            f"{store} holds none of the {len(documents)} documents that are asked about ({some}): "
            "ingest "
            f"them (`docagent-rl ingest PDFS --store {parsed.store}`), or name their store by "
            "docagent.store="
        )
    check_services(planned)
    return parsed


def _environment(agent: Agent, system: System, config: Any) -> dict[str, Any]:
    """Return the settings of a baseline's environment that follow from the recipe's."""
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


def _values(overrides: Sequence[str], section: str) -> dict[str, Any]:
    """Return the values of overrides below a section, by key."""
    prefix = f"{section}."
    chosen = [text for each in overrides if (text := each.lstrip("+")).startswith(prefix)]
    try:
        return plain_section(OmegaConf.from_dotlist([each.removeprefix(prefix) for each in chosen]))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"{' '.join(overrides)}: {error}") from error


def _search_here(section: Any) -> None:
    """Have retrievers of actors search in this process."""
    if not isinstance(section, DictConfig):
        return
    if section.get("backend") == "ray":
        section.backend = "local"
    parts = section.get("parts")
    for part in parts.values() if isinstance(parts, DictConfig) else ():
        _search_here(part)
