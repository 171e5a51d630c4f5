"""The description of a system: its configuration, its environment, its reward, its scripted
agents.
"""

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
from docagent_rl.envs.base import UNMARKED, DocEnv, Marks
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.services import EnvServices
from docagent_rl.rewards.formula import Formula
from docagent_rl.samples.sample import Sample

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore
    from docagent_rl.envs.script import Script
    from docagent_rl.envs.scripted_agent import ScriptedAgent


class PaperJudge(StrEnum):
    """The judge by which the paper of a system reports every benchmark, beside the benchmark's own
    way.
    """

    LABEL = "label"
    """It replies a label, of which one is right."""
    TRUE_FALSE = "true_false"
    """It replies True; whatever else it says is False."""
    TRUE_FALSE_AFTER_SEARCH = "true_false_after_search"
    """It replies True or False, and sees only trajectories with a search and an answer."""


@dataclass(frozen=True, slots=True)
class Unearned:
    """Rewards that knowledge of the answer does not explain, as found by a search over plans of
    moves.

    A plan is the same for all questions (`tests/players/unearned.py`); rewards are means over
    questions, as shares of what an honest agent is paid, which searches for the evidence, reads it
    and answers right.
    """

    unknowing: float
    """The most that an agent is paid which has read nothing and does not know the answer."""
    plan: tuple[str, ...]
    """What it does, in words; its answer is the last."""
    whose: str
    """Who made the rule that pays for it, and what changes it."""
    knowing: float = 1.0
    """The most that an agent is paid which knows evidence and answer; 1 if an honest one is paid as
    much.
    """
    knowing_plan: tuple[str, ...] = ()
    """What that agent does."""

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
    """The maker of environments of a system, most often their class."""

    def __call__(
        self,
        config: ConfigT_contra,
        services: EnvServices,
        prompt: PromptTemplate,
        /,
        *,
        validate: bool,
    ) -> DocEnv:
        """Return the environment of one trajectory; `validate` is true in validation and
        evaluation.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class System(Generic[ConfigT]):
    """A system: how it is configured, what its agent may do, and what it is rewarded for.

    `config_type` decides what its functions take: a type checker refuses an environment or a
    function for another configuration. The configuration has the fields or properties `prompt`,
    `assistant_turns`, `max_images` and `max_image_tokens`, unless the functions below compute them.
    """

    name: str
    """Its name in configuration files."""
    summary: str
    """One line."""
    config_type: type[ConfigT]
    """The pydantic model of its configuration, the section `docagent.env`."""
    env: EnvFactory[ConfigT]
    """Makes the environment of one trajectory."""
    make_grammar: Callable[[ConfigT], Grammar]
    """Makes the grammar of a configuration."""
    prompt_spec: PromptSpec
    """The parts and variables of its prompt files."""
    default_prompt: Callable[[ConfigT], str] = attrgetter("prompt")
    """The package's prompt for a configuration."""
    max_turns: Callable[[ConfigT], int] = attrgetter("assistant_turns")
    """Assistant turns of a trajectory at most."""
    max_images: Callable[[ConfigT], int] = attrgetter("max_images")
    """Images of a trajectory at most."""
    max_image_tokens: Callable[[ConfigT], int] = attrgetter("max_image_tokens")
    """Visual tokens of a trajectory at most: they have to fit into its context."""
    two_rankings: Callable[[ConfigT], bool] = lambda config: False
    """A configuration asks a second retriever (`docagent.text_retriever`)."""
    marks: Marks = UNMARKED
    """The numbers that say how right an answer is and whether the form was kept; the evidence
    funnel and the filters of `collect` go by them.
    """
    judged: bool = False
    """Answers are put to the judge (`docagent.judge`)."""
    roles: tuple[RoleName, ...] = ()
    """Models beside the policy that it asks (`docagent.roles`)."""
    formula: Callable[[ConfigT], Formula] | None = None
    """The formula of the reward; `None` where a system of one's own does not say."""
    reward_keys: tuple[str, ...] = ("reward",)
    """Settings of its configuration that terms and reward depend on."""
    check_sample: Callable[[Sample, DocumentStore, ConfigT, bool], None] | None = None
    """`(sample, store, config, validate)`: raises `UserError` for a question that cannot be played,
    where an opening asks a service or prepares a whole document; other systems are opened
    (`DocEnv.opening`).
    """
    paper_judge: PaperJudge | None = None
    """The judge of its paper; evaluations of a published system have that number, too."""
    cites: bool = False
    """Trajectories of a published system name their evidence; in others those do in which it
    stands: a list of relevant pages, a selected page.
    """
    agents: str | None = None
    """The module with its agents without a model, loaded when they play: `AGENT` writes the turns
    of the oracle, its detours and chance, `SCRIPT` those on which a tiny model of the system is
    warmed up.
    """
    several_rows: bool = False
    """A trajectory may have several contexts (`Observation.fresh`), each a training row. The rows
    of a step are then known only when its trajectories have ended.
    """
    small: Mapping[str, Any] = field(default_factory=dict)
    """The changes of `+profile=cpu` in `docagent.env`: sizes for a tiny model on one core, and
    nothing of the protocol.
    """
    padding: Mapping[str, str] = field(default_factory=dict)
    """The rewards of turns that lead to nothing, in words, by variant of its configuration."""
    unearned: Mapping[str, Unearned] = field(default_factory=dict)
    """The rewards of an agent that does not know the answer, by variant of its configuration."""
    shows_images: bool = True
    """The policy sees images; otherwise `display` is for a role's model, whose grid it keeps."""
    model_family: str = "qwen2_5_vl"
    """The family of the models that it was published with (`docagent_rl.models`)."""

    def parse_config(self, data: Mapping[str, Any] | BaseModel) -> ConfigT:
        """Validate plain data as the system's configuration; a configuration is returned as it is.

        Raises a `UserError` with every unknown key and impossible value.
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
        """Return a fresh environment for one trajectory; `prompt` is a file of the user's own."""
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
        """Return a fresh environment for a configuration that was parsed and a prompt that was
        loaded.
        """
        env = self.env(config, services, prompt, validate=validate)
        env.marks = self.marks
        return env

    def make_agent(self, config: ConfigT) -> ScriptedAgent:
        """Return the scripted agent for a parsed configuration; raises `UserError` where there is
        none.
        """
        agent = self._agent("AGENT")
        if agent is None:
            raise UserError(
                f"no script plays {self.name!r}: its System names no `agents` with an AGENT"
            )
        return agent(config)

    @property
    def script(self) -> type[Script] | None:
        """Its scripted agent; `None` where it has none."""
        return self._agent("SCRIPT")

    def _agent(self, name: str) -> Any:
        return (
            getattr(import_module(self.agents, f"system {self.name!r}"), name, None)
            if self.agents
            else None
        )
