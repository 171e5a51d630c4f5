"""The description of a system: its configuration, environment, reward and scripted agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from docagent_rl.actions.base import Grammar
from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.base.section import validated
from docagent_rl.base.user_code import import_module
from docagent_rl.envs.base import NO_OUTCOME_METRICS, DocEnv, OutcomeMetrics
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.services import EnvServices
from docagent_rl.rewards.formula import Formula
from docagent_rl.samples.sample import Sample

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore
    from docagent_rl.envs.script import Script
    from docagent_rl.envs.scripted_agent import ScriptedAgent


class PaperJudge(StrEnum):
    """The judge with which a system's paper reports all benchmarks, besides their own metrics."""

    LABEL = "label"
    """It replies with a label, one of which means right."""
    TRUE_FALSE = "true_false"
    """It replies True; any other reply counts as False."""
    TRUE_FALSE_AFTER_SEARCH = "true_false_after_search"
    """It replies True or False, and only sees trajectories with a search and an answer."""


@dataclass(frozen=True, slots=True)
class Unearned:
    """Rewards that are not explained by knowing the answer, found by a search over plans of moves.

    A plan is the same for all questions (`tests/players/unearned.py`). Rewards are means over
    questions, as shares of the reward of an honest agent, which searches for the evidence, reads it
    and answers right.
    """

    unknowing: float
    """The highest reward of an agent that has read nothing and does not know the answer."""
    plan: tuple[str, ...]
    """The moves of that agent, in words; the last one is its answer."""
    whose: str
    """The source of the rule that gives this reward, and the setting that changes it."""
    knowing: float = 1.0
    """The highest reward of an agent that knows evidence and answer; 1 if honesty earns as much."""
    knowing_plan: tuple[str, ...] = ()
    """The moves of that agent, in words."""

    def __str__(self) -> str:
        text = (
            f"{self.unknowing:.0%} of an honest trajectory's reward, for {', '.join(self.plan)}. "
        )
        if self.knowing > 1:
            text += (
                f"With evidence and answer {self.knowing:.0%}, for {', '.join(self.knowing_plan)}. "
            )
        return text + self.whose


ConfigT = TypeVar("ConfigT", bound=BaseModel)
ConfigT_contra = TypeVar("ConfigT_contra", contravariant=True)


class EnvFactory(Protocol[ConfigT_contra]):
    """A factory of a system's environments, usually their class."""

    def __call__(
        self,
        config: ConfigT_contra,
        services: EnvServices,
        prompt: PromptTemplate,
        /,
        *,
        validate: bool,
    ) -> DocEnv:
        """Return an environment for one trajectory; `validate` is true except in training."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class System(Generic[ConfigT]):
    """A system: its configuration, the actions of its agent, and its reward.

    `config_type` determines the argument types of the functions below, so that a type checker
    rejects an environment or a function written for another configuration. The configuration has
    the fields or properties `prompt`, `assistant_turns`, `max_images` and `max_image_tokens`,
    unless the functions below compute them.
    """

    name: str
    """The name of the system in configuration files."""
    summary: str
    """A description of one line."""
    config_type: type[ConfigT]
    """The pydantic model of the configuration, the section `docagent.env`."""
    env: EnvFactory[ConfigT]
    """Creates the environment of one trajectory."""
    make_grammar: Callable[[ConfigT], Grammar]
    """Creates the grammar for a configuration."""
    prompt_spec: PromptSpec
    """The parts and variables of the system's prompt files."""
    default_prompt: Callable[[ConfigT], str] = attrgetter("prompt")
    """Returns the name of the packaged prompt for a configuration."""
    max_turns: Callable[[ConfigT], int] = attrgetter("assistant_turns")
    """Returns the maximum number of assistant turns of a trajectory."""
    max_images: Callable[[ConfigT], int] = attrgetter("max_images")
    """Returns the maximum number of images of a trajectory."""
    max_image_tokens: Callable[[ConfigT], int] = attrgetter("max_image_tokens")
    """Returns the maximum number of visual tokens of a trajectory, which its context must hold."""
    two_rankings: Callable[[ConfigT], bool] = lambda config: False
    """Returns whether a configuration uses a second retriever (`docagent.text_retriever`)."""
    outcome_metrics: OutcomeMetrics = NO_OUTCOME_METRICS
    """The metrics for the outcome and the format, used by the evidence funnel and the filters of
    `collect`.
    """
    judged: bool = False
    """True if answers are sent to the judge (`docagent.judge`)."""
    roles: tuple[RoleName, ...] = ()
    """The roles of the models that the system uses besides the policy (`docagent.roles`)."""
    role_tokens: Callable[[ConfigT], Mapping[RoleName, int]] = lambda config: {}
    """Returns the most tokens of material, such as pages, that roles read in one request. A role
    that is not among them reads what another one wrote.
    """
    role_images: Callable[[ConfigT], Mapping[RoleName, int]] = lambda config: {}
    """Returns the most images that roles see in one request."""
    formula: Callable[[ConfigT], Formula] | None = None
    """Returns the formula of the reward; `None` if a custom system does not define one."""
    reward_keys: tuple[str, ...] = ("reward",)
    """The configuration keys on which terms and reward depend."""
    check_sample: Callable[[Sample, DocumentStore, ConfigT, bool], None] | None = None
    """`(sample, store, config, validate)`: raises `UserError` for a question that cannot be played.

    Needed if building the prompt calls a service or processes a whole document; other systems are
    checked by building the prompt (`DocEnv.opening`).
    """
    paper_judge: PaperJudge | None = None
    """The judge of the paper; evaluations of a published system report its score too."""
    cites: bool = False
    """True if all trajectories of a published system name their evidence. Otherwise a trajectory
    does if it contains a list of relevant pages or a selected page.
    """
    agents: str | None = None
    """The module with the system's agents without a model, imported when they are used.

    `AGENT` writes the turns of the oracle, of oracles with detours and of the random agent;
    `SCRIPT` writes those on which a tiny model of the system is warmed up.
    """
    several_rows: bool = False
    """True if a trajectory may have several contexts (`Observation.fresh`), each a training row.

    The number of rows of a step is then known only when its trajectories have ended.
    """
    test_temperature: Mapping[str, float] = field(default_factory=dict)
    """The temperature of the authors' tests, by variant of the configuration; where there is none,
    evaluations sample at that of validation.
    """
    small: Mapping[str, Any] = field(default_factory=dict)
    """The changes that `+profile=cpu` makes in `docagent.env`: sizes for a tiny model on one core,
    but no change of the protocol.
    """
    padding: Mapping[str, str] = field(default_factory=dict)
    """The reward of turns that achieve nothing, in words, by variant of the configuration."""
    unearned: Mapping[str, Unearned] = field(default_factory=dict)
    """The reward of an agent that does not know the answer, by variant of the configuration."""
    shows_images: bool = True
    """True if the policy sees images. If not, `display` applies to the model of a role and follows
    that model's grid.
    """
    model_family: str = "qwen2_5_vl"
    """The family of the models with which the system was published (`docagent_rl.models`)."""

    def parse_config(self, data: Mapping[str, Any] | BaseModel) -> ConfigT:
        """Parse plain data as the system's configuration; a parsed configuration is returned as is.

        Raises a `UserError` that lists every unknown key and invalid value.
        """
        if isinstance(data, self.config_type):
            return data
        return validated(self.config_type, data, "docagent.env")

    def load_prompt(
        self, config: Mapping[str, Any] | BaseModel, path: str | Path | None = None
    ) -> PromptTemplate:
        """Return the prompt of a configuration, or the user's own (`docagent.prompt`).

        Raises a `UserError` that names the file and the part if it is missing or unusable.
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
        """Return a new environment for one trajectory; `prompt` is the user's own prompt file."""
        parsed = self.parse_config(config)
        return self.open(parsed, services, self.load_prompt(parsed, prompt), validate=validate)

    def open(
        self,
        config: ConfigT,
        services: EnvServices,
        prompt: PromptTemplate,
        *,
        validate: bool = False,
    ) -> DocEnv:
        """Return a new environment for a parsed configuration and a loaded prompt."""
        env = self.env(config, services, prompt, validate=validate)
        env.outcome_metrics = self.outcome_metrics
        return env

    def make_agent(self, config: ConfigT) -> ScriptedAgent[ConfigT]:
        """Return the scripted agent for a parsed configuration; raises `UserError` if there is
        none.
        """
        agent = self._agent("AGENT")
        if agent is None:
            raise UserError(
                f"system {self.name!r} has no scripted agent: set `agents` of its System to a "
                "module that defines AGENT"
            )
        return agent(config)

    @property
    def script(self) -> type[Script[ConfigT]] | None:
        """The class that writes random turns of the system; `None` if there is none."""
        return self._agent("SCRIPT")

    def _agent(self, name: str) -> Any:
        return (
            getattr(import_module(self.agents, f"system {self.name!r}"), name, None)
            if self.agents
            else None
        )
