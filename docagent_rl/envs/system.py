"""What a system is: how it is configured, what its agent may do, what it is rewarded for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from docagent_rl.actions.base import Grammar
from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.base.section import explain
from docagent_rl.documents import DocumentStore
from docagent_rl.envs.base import DocEnv
from docagent_rl.envs.measures import UNMARKED, Marks
from docagent_rl.envs.pen import Pen
from docagent_rl.envs.roles import RoleName
from docagent_rl.envs.script import Script
from docagent_rl.envs.services import EnvServices
from docagent_rl.records.record import Record
from docagent_rl.rewards.formula import Formula


class EnvMaker(Protocol):
    """Makes the environment of one session."""

    def __call__(
        self, config: Any, services: EnvServices, prompt: PromptTemplate, *, validate: bool
    ) -> DocEnv:
        """A fresh environment; `validate` is true in validation and evaluation."""
        ...


class SampleCheck(Protocol):
    """Refuses a question that cannot be played."""

    def __call__(self, record: Record, store: DocumentStore, config: Any, validate: bool, /) -> None:
        """Raises `UserError`, naming the question."""
        ...


class PaperJudge(StrEnum):
    """By what judge the paper of a system reports every benchmark, beside the benchmark's own way."""

    LABEL = "label"
    """It replies a label, of which one is right."""
    TRUE_FALSE = "true_false"
    """It replies True; whatever else it says is False."""
    TRUE_FALSE_AFTER_SEARCH = "true_false_after_search"
    """It replies True or False, and sees only sessions with a search and an answer."""


@dataclass(frozen=True, slots=True)
class System:
    """A system: how it is configured, what its agent may do, and what it is rewarded for.

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
        two_rankings: whether a configuration asks a second retriever (`docagent.text_retriever`).
        formula: how the terms make the reward; `None` where a system of one's own does not say.
        reward_keys: settings of its configuration that terms and reward depend on.
        marks: which of its numbers say how right an answer is and whether the form was kept; the evidence
            funnel and the filters of `collect` go by them.
        judged: whether answers are put to the judge (`docagent.judge`).
        roles: models beside the policy that it asks (`docagent.roles`).
        check_sample: `(record, store, config, validate)`, raises `UserError` for a question that cannot be
            played. For systems whose opening asks a service or prepares a whole document; the others are
            opened (`DocEnv.opening`) to find out.
        paper_judge: how its paper judges answers; evaluations of a published system have that number beside
            the benchmark's.
        cites: whether sessions of a published system name their evidence; in others those do in which it
            stands: a list of relevant pages, a selected page.
        pen: writes the turns of scripts that play it: the oracle, its detours, chance.
        script: a scripted policy, on whose episodes a tiny model of the system is warmed up.
        several_rows: whether a session may have several contexts (`Observation.fresh`), each a training row,
            so that the rows of a step are known only when its sessions have ended.
        small: what `+profile=cpu` changes in `docagent.env`: sizes for a tiny model on one core, and nothing
            of the protocol.
        padding: what turns that lead to nothing earn all the same, in words, by variant of its configuration.
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
    two_rankings: Callable[[Any], bool] = lambda config: False
    marks: Marks = UNMARKED
    judged: bool = False
    roles: tuple[RoleName, ...] = ()
    formula: Callable[[Any], Formula] | None = None
    reward_keys: tuple[str, ...] = ("reward",)
    check_sample: SampleCheck | None = None
    paper_judge: PaperJudge | None = None
    cites: bool = False
    pen: type[Pen] | None = None
    script: type[Script] | None = None
    several_rows: bool = False
    small: Mapping[str, Any] = field(default_factory=dict)
    padding: Mapping[str, str] = field(default_factory=dict)

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
        return self.open(parsed, services, self.load_prompt(parsed, prompt), validate=validate)

    def make_pen(self, config: Any) -> Pen:
        """The pen for a configuration, parsed.

        Raises:
            UserError: the system has none.
        """
        if self.pen is None:
            raise UserError(
                f"no script plays {self.name!r}: its System has no pen (`docagent_rl.envs.pen.Pen`)"
            )
        return self.pen(config)

    def open(
        self, config: Any, services: EnvServices, prompt: PromptTemplate, *, validate: bool = False
    ) -> DocEnv:
        """The same, of what was parsed and loaded."""
        env = self.env(config, services, prompt, validate=validate)
        env.marks = self.marks
        return env
