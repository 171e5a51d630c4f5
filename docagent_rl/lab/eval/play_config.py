"""Configurations with which agents play outside the trainer, composed from recipes and checked."""

from collections.abc import Iterable, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import merged
from docagent_rl.checks.check import PlannedRun, When, refuse_for, run_checks
from docagent_rl.checks.environment import resolve_environment, resolve_folders, resolve_reward_file
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.checks.recipe_list import TrainerKind, recipe_kind
from docagent_rl.checks.services import SERVICE_CHECKS, check_services
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
_SAMPLING = "actor_rollout_ref.rollout.val_kwargs"


def play_config(
    recipe: str, agent: Agent, overrides: Sequence[str] = (), *, temperature: float | None = None
) -> DictConfig:
    """Compose the configuration with which an agent plays.

    Where a recipe searches through Ray actors, searches run in this process instead: there is no
    Ray outside a training run. For a baseline, overrides of `docagent.env` and `docagent.prompt`
    apply to the baseline's own settings, which Hydra does not know. `temperature` is that of the
    options of a command (`settle_temperature`).

    Raises:
        UserError: there is no such recipe, it is one for fine-tuning, or Hydra cannot compose it.
    """
    if recipe_kind(recipe) is TrainerKind.SFT:
        raise UserError(
            f"{recipe} is a recipe for fine-tuning, which plays nothing: name a recipe for "
            "reinforcement learning, such as "
            f"{recipe.removeprefix('sft_')}"
        )
    own = [
        each
        for each in overrides
        if agent.baseline and each.lstrip("+").startswith((f"{_ENV}.", f"{_PROMPT}="))
    ]
    run = composed_recipe(recipe, [each for each in overrides if each not in own])
    try:
        resolve_environment(run)
        resolve_reward_file(run)
        resolve_folders(run)
        with open_dict(run):
            for key in ("docagent.retriever", "docagent.text_retriever"):
                _search_here(OmegaConf.select(run, key))
        settle_temperature(run, temperature, overrides)
        configure_agent(run, agent, own)
        refuse_for(key_problems(run))
    except OmegaConfBaseException as error:
        raise UserError(f"configuration: {error}") from error
    return run


def settle_temperature(run: DictConfig, given: float | None, overrides: Sequence[str]) -> None:
    """Set the temperature at which a model plays, behind an endpoint and in this process alike.

    It is the first that there is: `given`; that of an override; that of the authors' tests, by the
    recipe's variant (`System.test_temperature`); the recipe's own, which is that of validation.
    All agents of a recipe sample alike, so that their numbers can stand side by side.
    """
    key = f"{_SAMPLING}.temperature"
    chosen = given
    if chosen is None and not any(each.lstrip("+").startswith(f"{key}=") for each in overrides):
        variant = run.docagent.env.get("variant")
        chosen = get_system(run.docagent.system).test_temperature.get(variant)
    if chosen is not None:
        OmegaConf.update(run, key, chosen)
        OmegaConf.update(run, f"{_SAMPLING}.do_sample", chosen > 0)


def configure_agent(run: DictConfig, agent: Agent, own: Sequence[str] = ()) -> None:
    """Have an agent play with the documents, retriever, judge, model and context of a recipe.

    The prompt of a one-turn baseline may use the whole context except the turn. Searches have the
    recipe's scope; pages have the size at which the recipe shows them, and are shown as text if the
    recipe shows no images.

    The configuration is changed in place; `own` contains the overrides of a baseline's environment
    and prompt.

    Raises:
        UserError: an override cannot be parsed, or the context leaves no room for a prompt.
    """
    if not agent.baseline:
        return
    with open_dict(run):
        section = run.docagent
        parsed = DocAgentConfig.parse(plain_section(section))
        system = get_system(parsed.system)
        env = _environment(agent, system, system.parse_config(parsed.env))
        section.tiny_model = str(section.tiny_model)  # resolved while the recipe's system is set
        section.system = f"{_BASELINES}:{agent.name}"
        if agent.searches_twice and section.text_retriever is not None:
            env["text_ranking"] = "own"
        section.env = OmegaConf.create(merged(env, _values(own, _ENV)))
        section.env_cpu = OmegaConf.create({})
        section.prompt = _values(own, "docagent").get("prompt")
        section.roles = OmegaConf.create({})
        if not agent.searches_twice:
            section.text_retriever = None
        if agent in (Agent.QUESTION_ONLY, Agent.WHOLE_DOCUMENT, Agent.GOLD_EVIDENCE):
            section.retriever = OmegaConf.create({"kind": f"{_BASELINES}:Unasked"})
        if agent.several_turns:
            return
        turn = parsed.rollout.turn_tokens
        context = int(run.data.max_prompt_length) + int(run.data.max_response_length)
        if turn >= context:
            raise UserError(
                f"{agent.value}: docagent.rollout.turn_tokens={turn} leaves no room for a prompt: "
                f"data.max_prompt_length + data.max_response_length is {context} tokens. Lower the "
                "first or raise one of the others"
            )
        run.data.max_prompt_length = context - turn
        run.data.max_response_length = turn


def check_play(run: DictConfig, samples: Iterable[Sample]) -> DocAgentConfig:
    """Check a `play_config` before anything is played, and return its section `docagent`.

    Raises:
        UserError: a key is unknown, the store or the prompt is missing, a model was not configured,
            or none of the questions is about a document of the store.
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
            f"{store.path} contains none of the {len(documents)} documents that the questions are "
            f"about ({some}): ingest them (`docagent-rl ingest PDFS --store {store.path}`), or set "
            "docagent.store= to the store that has them"
        )
    check_services(planned)
    return parsed


def _environment(agent: Agent, system: System, config: BaseModel) -> dict[str, Any]:
    """Return the settings of a baseline's environment that follow from the recipe's."""
    found: dict[str, Any] = {}
    scope = getattr(getattr(config, "search", None), "scope", SearchScope.DOCUMENT)
    found["scope"] = SearchScope(scope).value
    if isinstance(display := getattr(config, "display", None), DisplayRule):
        found["display"] = display.model_dump()
    if agent in (Agent.WHOLE_DOCUMENT, Agent.GOLD_EVIDENCE, Agent.REACT):
        found["form"] = "image" if system.max_images(config) else "text"
    if agent.several_turns:
        found["max_turns"] = system.max_turns(config)
    return found


def _values(overrides: Sequence[str], section: str) -> dict[str, Any]:
    """Return the values of the overrides below a section, by key."""
    prefix = f"{section}."
    chosen = [text for each in overrides if (text := each.lstrip("+")).startswith(prefix)]
    try:
        return plain_section(OmegaConf.from_dotlist([each.removeprefix(prefix) for each in chosen]))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"{' '.join(overrides)}: {error}") from error


def _search_here(section: Any) -> None:
    """Have retrievers that run in actors search in this process."""
    if not isinstance(section, DictConfig):
        return
    if section.get("backend") == "ray":
        section.backend = "local"
    parts = section.get("parts")
    for part in parts.values() if isinstance(parts, DictConfig) else ():
        _search_here(part)
