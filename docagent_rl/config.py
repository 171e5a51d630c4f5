"""The section `docagent` of a recipe."""

from __future__ import annotations

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
from docagent_rl.documents.shown import ShownRasters
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
    """Return a section of a composed configuration as a plain mapping, interpolations resolved or
    left.
    """
    # OmegaConf names all that a container of any kind may become
    return cast("dict[str, Any]", OmegaConf.to_container(section, resolve=resolve))


_PATTERNS = ("*", "?", "[", "]", "::")


def data_files(config: DictConfig, key: str) -> list[Path]:
    """Return the files under `data.train_files` or `data.val_files`.

    Raises:
        UserError: there are none, or verl's loader would take a path for a pattern.
    """
    files = plain_section(config.data).get(key)
    listed = [files] if isinstance(files, str) else list(files or ())
    if not listed:
        raise UserError(f"data.{key} names no file; `docagent-rl data convert` writes such files")
    for file in listed:
        if found := [each for each in _PATTERNS if each in file]:
            raise UserError(
                f"data.{key}={file}: verl's loader takes {' '.join(found)} for a pattern: rename it"
            )
    return [Path(file) for file in listed]


Clearable = Annotated[dict[str, Any], BeforeValidator(lambda value: {} if value is None else value)]
"""Keys of which null leaves none: Hydra merges mappings, so that {} changes nothing that a recipe
sets.
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
    """The treatment of a training question that cannot be played: its prompt does not fit, it has
    no answer.

    In validation such a question always counts as wrong and is reported.
    """

    REFUSE = "refuse"
    """The run does not start; the questions are named."""
    MASK = "mask"
    """Its trajectories are masked and counted."""


class RolloutConfig(Section):
    """The playing of trajectories."""

    prompt_tokens: int | None = Field(None, ge=1)
    """Tokens of a prompt that environments may fill; recipes set it to `data.max_prompt_length`."""
    unplayable: UnplayablePolicy = UnplayablePolicy.REFUSE
    turn_tokens: int = Field(2048, ge=1)
    """Most tokens sampled in one turn."""
    min_turn_tokens: int = Field(16, ge=1)
    """An observation is dropped when less than this would remain for the next turn."""
    trajectory_attempts: int = Field(2, ge=1)
    """A trajectory that fails for infrastructure reasons is started this often before it is
    masked.
    """
    image_cache_mb: int | None = Field(None, ge=1)
    """Preprocessed images (patches of bytes) that the agent workers of a run keep, in MiB of Ray's
    store; `None`: a share of it.
    """
    image_threads: int | None = Field(None, ge=1)
    """Threads of an agent worker that render and preprocess; `None`: its share of the node's
    cores.
    """
    trajectory_memory_mb: int | None = Field(None, ge=1)
    """Memory in MiB for the trajectories that play at a time in an agent worker; `None`: its share
    of half of the node's memory that is free when it starts.
    """
    shown_cache_mb: int = Field(8192, ge=0)
    """Whole pages at the sizes they are shown at (thumbnails for Doc-V* above all), kept on disk
    for all processes and runs, in MiB: in `<store>.shown`, or where that cannot be written, in
    `<workspace>/shown`. 0: none.
    """


class TrajectoryText(Enum):
    """The text that stands for a trajectory when trajectories are compared."""

    ACTIONS = "actions"
    """The policy's turns."""
    ENVIRONMENT = "environment"
    """The system's own form, if it has one (MM-Doc-R1); else `actions`."""


class TextConfig(Section):
    """The text of a trajectory. System prompt and question are left out: a group shares them, and
    they would make all its trajectories alike.
    """

    source: TrajectoryText = TrajectoryText.ACTIONS
    include_answer: bool = True
    """Count the last turn; without it, equal answers do not make trajectories alike."""


class AdvantageConfig(Section):
    """Settings of an estimator beside the section `algorithm`, whose gamma and lam are those over
    tokens.
    """

    gamma_turn: float = Field(1.0, ge=0, le=1)
    """Discount a turn."""
    lam_turn: float = Field(1.0, ge=0, le=1)
    options: Clearable = Field(default_factory=dict)
    """Options of the estimator's function, by name; null: none, whatever a recipe sets."""
    text: TextConfig = Field(default_factory=TextConfig)
    embedder: EmbedderConfig = Field(default_factory=EmbedderConfig)


class CriticConfig(Section):
    """Settings of the critic that verl's section `critic` lacks."""

    freeze_vision_tower: bool | None = None
    """Train the critic's vision tower or not; null: as
    `actor_rollout_ref.actor.freeze_vision_tower` says.
    """


class WatchConfig(Section):
    """The watch over the actors and engines of a run (see `watch`)."""

    interval_s: float = Field(5.0, gt=0)
    """Seconds between two looks."""
    engine_timeout_s: float | None = Field(300.0, gt=0)
    """Seconds without an answer after which a vLLM engine counts as hanging; null: never. A weight
    update or a step of the engine has to fit in.
    """
    pending_s: float | None = Field(40.0, gt=0)
    """Seconds that an actor may wait for a place in Ray; null: for ever."""
    stop_s: float = Field(240.0, gt=0)
    """Seconds after SIGTERM in which the step may end; then its rollout is given up. An update that
    goes on, and the checkpoint, have as many again.
    """
    most_apart: float | None = Field(2.0, gt=0)
    """Nats by which a sampled token may on average be likelier to the rollout server than to the
    trainer (`training.trainer.rollout_correction`); null: any number.
    """


class DocAgentConfig(Section):
    """Everything the plugin reads; `env` is validated by the system it belongs to."""

    system: str
    model_family: str = "qwen2_5_vl"
    """The family of the policy's model (`docagent_rl.models`), which says how it sees images."""
    workspace: Path
    run_dir: Path
    """Trajectories, checkpoints and Hydra's record of the run."""
    store: Path
    """Document store (`docagent-rl ingest`)."""
    shown_store: Path | None = None
    """The same documents as the policy is shown them, where that differs (`docagent-rl probe`)."""
    retriever: RetrieverConfig
    text_retriever: RetrieverConfig | None = None
    """Ranks page texts where images and texts are listed apart (the hybrid of ALDEN)."""
    text_retriever_cpu: RetrieverConfig | None = None
    """Its replacement in the CPU profile."""
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    reward_function: RewardFunctionConfig = Field(default_factory=RewardFunctionConfig)
    """A function of the user's own, beside the system's reward or in its place."""
    roles: dict[RoleName, RoleConfig] = Field(default_factory=dict)
    """Models beside the policy (planner, reader, ...); the others are played by embedded rules."""
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    checkpoint_check: CheckpointCheck = CheckpointCheck.FULL
    """The part of a checkpoint that is verified before a run goes on from it."""
    keep_best: bool = True
    """Keep the checkpoint with the best validation beside those that are kept by number."""
    credit: bool = True
    """Store the credit of each sampled token, `<run_dir>/credit/<step>.parquet`."""
    loopback: bool = True
    """Keep a run on one machine that starts its own Ray to 127.0.0.1 (see `loopback`)."""
    watch: WatchConfig = Field(default_factory=WatchConfig)
    console: ConsoleKind = ConsoleKind.SHORT
    modules: tuple[str, ...] = ()
    """Python modules of your own, imported in every process: they may register estimators, losses,
    loops.
    """
    advantage: AdvantageConfig = Field(default_factory=AdvantageConfig)
    kl: KlConfig = Field(default_factory=KlConfig)
    loss: LossConfig = Field(default_factory=LossConfig)
    critic: CriticConfig = Field(default_factory=CriticConfig)
    env: Clearable = Field(default_factory=dict)
    env_cpu: Clearable = Field(default_factory=dict)
    """Changes of `env` in the CPU profile, beside the system's own sizes (`System.small`)."""
    profile: Profile | None = None
    prompt: Path | None = None
    """A prompt file of the user's own instead of the system's."""
    provision: str | None = None
    """Module whose `provide_data` and `provide_model` make what a run lacks before it starts (CPU
    profile: a demo in a new workspace, in one of the user's the tiny model alone).
    """
    tiny_model: str | None = None
    """The system whose tiny model the CPU profile runs; by default `system`."""

    @field_validator("run_dir")
    @classmethod
    def _check_run_name(cls, run_dir: Path) -> Path:
        if problem := id_problem(run_dir.name):
            raise ValueError(problem)
        return run_dir

    def open_store(self, shown: ShownRasters | None = None) -> DocumentStore:
        """Open the documents (`store`); `shown` keeps pages at the sizes that they are shown at.

        Raises:
            UserError: there is no store; names the workspace, which is where it was looked for.
        """
        try:
            return DocumentStore(self.store, shown=shown)
        except UserError as error:
            raise UserError(
                f"docagent.store: {error}. The workspace is {self.workspace.absolute()}; name "
                "yours by "
                "DOCAGENT_WORKSPACE=FOLDER or docagent.workspace=FOLDER, or the store alone by "
                "docagent.store=FOLDER"
            ) from error

    def retrievers(self) -> dict[str, RetrieverConfig]:
        """Return the configured retrievers by key: one, or two where texts are ranked apart."""
        found = {
            "docagent.retriever": self.retriever,
            "docagent.text_retriever": self.text_retriever,
        }
        return {key: each for key, each in found.items() if each is not None}

    @classmethod
    def parse(cls, section: Mapping[str, Any] | None) -> DocAgentConfig:
        """Validate a plain mapping.

        Raises:
            UserError: names every key that is unknown, missing or of a wrong type, or a system or
                family that there is not.
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
    """Return how a system shows its images by default, to a model whose processor has this grid."""
    field = system.config_type.model_fields["display"]
    sizes: dict[str, Any] = {}
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if default is not None:
        sizes = default.model_dump(mode="json", exclude_unset=True)
    return {**sizes, "grid": grid.model_dump(mode="json")}


def _large_enough(small: Mapping[str, Any], grid: ImageGrid) -> Mapping[str, Any]:
    """Return a system's small sizes with images that the family's processor would not enlarge."""
    least = grid.image_limits()[0]
    display = small.get("display", {})
    if display.get("min_pixels", least) >= least:
        return small
    most = max(3 * least // 2, display["max_pixels"])
    return merged(small, {"display": {"min_pixels": least, "max_pixels": most}})
