"""The configuration section `docagent` of a recipe."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, cast

from omegaconf import DictConfig, OmegaConf
from pydantic import BeforeValidator, Field, field_validator

from docagent_rl.advantages.embedder import EmbedderConfig
from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section, merged, validated
from docagent_rl.base.text import id_problem
from docagent_rl.checkpoints.manifest import CheckpointCheck
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.documents.shown import CAPACITY_MIB, ShownRasters
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.roles import RoleConfig, RoleName
from docagent_rl.envs.system import System
from docagent_rl.losses.config import KlConfig, LossConfig
from docagent_rl.models import get_family
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.rewards.custom.config import RewardFunctionConfig
from docagent_rl.rewards.judge import JudgeConfig
from docagent_rl.systems import get_system


def plain_section(section: DictConfig, *, resolve: bool = True) -> dict[str, Any]:
    """Return a section of a composed configuration as a dict, by default with interpolations
    resolved.
    """
    # OmegaConf's annotation covers containers of every kind
    return cast("dict[str, Any]", OmegaConf.to_container(section, resolve=resolve))


def copied(config: DictConfig) -> DictConfig:
    """Return a copy of a configuration, six times faster than `config.copy()`."""
    return pickle.loads(pickle.dumps(config))


_PATTERNS = ("*", "?", "[", "]", "::")


def data_files(config: DictConfig, key: str) -> list[Path]:
    """Return the files listed in `data.train_files` or `data.val_files`.

    Raises:
        UserError: no file is listed, or verl's loader would take a path for a glob pattern.
    """
    files = plain_section(config.data).get(key)
    listed = [files] if isinstance(files, str) else list(files or ())
    if not listed:
        raise UserError(f"data.{key} names no file; `docagent-rl data convert` writes such files")
    for file in listed:
        if found := [each for each in _PATTERNS if each in file]:
            raise UserError(
                f"data.{key}={file}: verl's loader would take this path for a pattern because of "
                f"{' '.join(found)}: rename the file"
            )
    return [Path(file) for file in listed]


Clearable = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]
"""A mapping that null clears. Hydra merges mappings, so that {} would not remove a recipe's
keys.
"""


class Profile(Enum):
    """A kind of machine that recipes are scaled to."""

    CPU = "cpu"


class ConsoleKind(Enum):
    """The choice of what a run of the trainer prints (see `console`)."""

    SHORT = "short"
    """The stages of its start, a line a step, a table at each validation; all else goes to
    `<run_dir>/console.log`.
    """
    FULL = "full"
    """All that verl, Ray and their libraries print, and no file."""


class UnplayablePolicy(Enum):
    """Treatment of a training question that cannot be played: its prompt is too long, or it has no
    answer.

    In validation such a question always counts as wrong, and is reported.
    """

    REFUSE = "refuse"
    """Refuse to start the run, and name the questions."""
    MASK = "mask"
    """Its trajectories are masked and counted."""


class RolloutConfig(Section):
    """Settings of the rollout."""

    prompt_tokens: int | None = Field(None, ge=1)
    """Maximum number of prompt tokens that an environment may use; recipes set it to
    `data.max_prompt_length`.
    """
    unplayable: UnplayablePolicy = UnplayablePolicy.REFUSE
    turn_tokens: int = Field(2048, ge=1)
    """Maximum number of tokens sampled in one turn."""
    min_turn_tokens: int = Field(16, ge=1)
    """Drop an observation if it would leave fewer tokens than this for the next turn."""
    trajectory_attempts: int = Field(2, ge=1)
    """Attempts at a trajectory that fails for infrastructure reasons, before it is masked."""
    image_cache_mb: int | None = Field(None, ge=1)
    """Size of the cache of preprocessed images (patches of bytes) that the agent workers of a run
    share, in MiB of Ray's object store; `None`: a share of the store.
    """
    image_threads: int | None = Field(None, ge=1)
    """Threads per agent worker that render and preprocess images; `None`: its share of the node's
    cores.
    """
    trajectory_memory_mb: int | None = Field(None, ge=1)
    """Memory in MiB for the trajectories that an agent worker plays concurrently; `None`: its share
    of half of the node's memory that is free when the worker starts.
    """
    shown_cache_mb: int = Field(CAPACITY_MIB, ge=0)
    """Size in MiB of the disk cache of whole pages at the sizes at which they are shown (mostly
    thumbnails, for Doc-V*). All processes and runs share it. It is in `<store>.shown` or, if that
    is not writable, in `<workspace>/shown`. 0 disables it.
    """


class TrajectoryText(Enum):
    """The text that represents a trajectory when trajectories are compared."""

    ACTIONS = "actions"
    """The policy's turns."""
    ENVIRONMENT = "environment"
    """The text that the system itself provides (MM-Doc-R1); `actions` if it provides none."""


class TextConfig(Section):
    """The text of a trajectory for comparisons. It omits the system prompt and the question, which
    a group shares: they would make all its trajectories similar.
    """

    source: TrajectoryText = TrajectoryText.ACTIONS
    include_answer: bool = True
    """Include the last turn; if it is excluded, equal answers do not make trajectories similar."""


class AdvantageConfig(Section):
    """Settings of the advantage estimator in addition to the section `algorithm`, whose `gamma` and
    `lam` apply per token.
    """

    gamma_turn: float = Field(1.0, ge=0, le=1)
    """Discount factor per turn."""
    lam_turn: float = Field(1.0, ge=0, le=1)
    options: Clearable = Field(default_factory=dict)
    """Options of the estimator's function, by name; null removes those that a recipe sets."""
    text: TextConfig = Field(default_factory=TextConfig)
    embedder: EmbedderConfig = Field(default_factory=EmbedderConfig)


class CriticConfig(Section):
    """Settings of the critic that verl's section `critic` does not have."""

    freeze_vision_tower: bool | None = None
    """True if to freeze the critic's vision tower; null: use the value of
    `actor_rollout_ref.actor.freeze_vision_tower`.
    """


class WatchConfig(Section):
    """Settings of the watchdog for the actors and engines of a run (see `watch`)."""

    interval_s: float = Field(5.0, gt=0)
    """Seconds between two checks."""
    engine_timeout_s: float | None = Field(300.0, gt=0)
    """Seconds without a response after which a vLLM engine counts as hung; null: never. It must be
    longer than a weight update and than a step of the engine.
    """
    pending_s: float | None = Field(40.0, gt=0)
    """Seconds that an actor may wait for Ray to schedule it; null: no limit."""
    stop_s: float = Field(240.0, gt=0)
    """Seconds that the current step may continue after SIGTERM; then its rollout is abandoned. An
    update that is running, and the checkpoint, get the same time again.
    """
    most_apart: float | None = Field(2.0, gt=0)
    """Nats by which the log-probability of a sampled token may on average be higher on the rollout
    server than in the trainer (`training.trainer.rollout_correction`); null: no limit.
    """


class DocAgentConfig(Section):
    """All settings of the plugin; the section `env` is validated by the system it belongs to."""

    system: str
    model_family: str = "qwen2_5_vl"
    """The model family of the policy (`docagent_rl.models`), which defines how it sees images."""
    workspace: Path
    run_dir: Path
    """Trajectories, checkpoints and Hydra's record of the run."""
    store: Path
    """Document store (`docagent-rl ingest`)."""
    shown_store: Path | None = None
    """A store with the documents as the policy is shown them, if that differs
    (`docagent-rl probe`).
    """
    retriever: RetrieverConfig
    text_retriever: RetrieverConfig | None = None
    """Ranks page texts in systems that list images and texts separately (ALDEN's hybrid)."""
    text_retriever_cpu: RetrieverConfig | None = None
    """Replaces `text_retriever` in the CPU profile."""
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    reward_function: RewardFunctionConfig = Field(default_factory=RewardFunctionConfig)
    """A reward function of the user's own, in addition to the system's reward or instead of it."""
    roles: dict[RoleName, RoleConfig] = Field(default_factory=dict)
    """Models other than the policy (planner, reader, ...); built-in rules play the missing ones."""
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    checkpoint_check: CheckpointCheck = CheckpointCheck.FULL
    """The part of a checkpoint that is verified before a run resumes from it."""
    keep_best: bool = True
    """Keep the checkpoint with the best validation score in addition to the most recent ones."""
    credit: bool = True
    """Store the credit of each sampled token in `<run_dir>/credit/<step>.parquet`."""
    loopback: bool = True
    """Bind a run on one machine that starts its own Ray to 127.0.0.1 (see `loopback`)."""
    watch: WatchConfig = Field(default_factory=WatchConfig)
    console: ConsoleKind = ConsoleKind.SHORT
    modules: tuple[str, ...] = ()
    """The user's Python modules, imported in every process; they may register estimators, losses
    and agent loops.
    """
    advantage: AdvantageConfig = Field(default_factory=AdvantageConfig)
    kl: KlConfig = Field(default_factory=KlConfig)
    loss: LossConfig = Field(default_factory=LossConfig)
    critic: CriticConfig = Field(default_factory=CriticConfig)
    env: Clearable = Field(default_factory=dict)
    env_cpu: Clearable = Field(default_factory=dict)
    """Overrides of `env` in the CPU profile, on top of the system's small sizes
    (`System.small`).
    """
    profile: Profile | None = None
    prompt: Path | None = None
    """A prompt file of the user's that replaces the system's."""
    provision: str | None = None
    """Module whose `provide_data` and `provide_model` create missing data and models before a run
    starts. The CPU profile creates a demo in a new workspace, and only the tiny model in a
    workspace of the user's.
    """
    tiny_model: str | None = None
    """The system whose tiny model the CPU profile uses; by default `system`."""

    @field_validator("run_dir")
    @classmethod
    def _check_run_name(cls, run_dir: Path) -> Path:
        if problem := id_problem(run_dir.name):
            raise ValueError(problem)
        return run_dir

    def open_store(self, shown: ShownRasters | None = None) -> DocumentStore:
        """Open the document store; `shown` caches pages at the sizes at which they are shown.

        Raises:
            UserError: there is no store; the message names the workspace that was searched.
        """
        try:
            return DocumentStore(self.store, shown=shown)
        except UserError as error:
            raise UserError(
                f"docagent.store: {error}. The workspace is {self.workspace.absolute()}; set "
                "another one with DOCAGENT_WORKSPACE=FOLDER or docagent.workspace=FOLDER, or only "
                "the store with docagent.store=FOLDER"
            ) from error

    def retrievers(self) -> dict[str, RetrieverConfig]:
        """Return the configured retrievers by key: one, or two if texts are ranked separately."""
        found = {
            "docagent.retriever": self.retriever,
            "docagent.text_retriever": self.text_retriever,
        }
        return {key: each for key, each in found.items() if each is not None}

    @classmethod
    def parse(cls, section: Mapping[str, Any] | None) -> DocAgentConfig:
        """Validate a plain mapping.

        Raises:
            UserError: a key is unknown, missing or of the wrong type, or the system or the model
                family does not exist; the message names all of them.
        """
        if section is None:
            raise UserError(
                "the configuration has no section `docagent`; start from a recipe (--config-name)"
            )
        config = validated(cls, dict(section), "docagent")
        system = get_system(config.system)
        vision = get_family(config.model_family).vision
        tiny = config.profile is Profile.CPU
        grid = None if vision is None else vision.grid_of(tiny=tiny)

        env = config.env
        if tiny:
            small = system.small if grid is None else _large_enough(system.small, grid)
            env = merged(env, merged(small, config.env_cpu))
        if (
            grid is not None
            and system.shows_images
            and "display" in system.config_type.model_fields
        ):
            env = merged({"display": _display(system, grid)}, env)
        return config.model_copy(update={"env": env})


def _display(system: System, grid: ImageGrid) -> dict[str, Any]:
    """Return a system's default display settings for a model whose processor uses this grid."""
    field = system.config_type.model_fields["display"]
    sizes: dict[str, Any] = {}
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if default is not None:
        sizes = default.model_dump(mode="json", exclude_unset=True)
    return {**sizes, "grid": grid.model_dump(mode="json")}


def _large_enough(small: Mapping[str, Any], grid: ImageGrid) -> Mapping[str, Any]:
    """Return a system's small sizes, with images that the family's processor does not upscale."""
    least = grid.image_limits()[0]
    display = small.get("display", {})
    if display.get("min_pixels", least) >= least:
        return small
    most = max(3 * least // 2, display["max_pixels"])
    return merged(small, {"display": {"min_pixels": least, "max_pixels": most}})
