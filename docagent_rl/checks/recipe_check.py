"""Checks of recipes that only need their configuration."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError
from yaml import YAMLError

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import composing_for
from docagent_rl.checks.budget import BudgetLine, Run, budget, server_cache
from docagent_rl.checks.budget_table import read_run
from docagent_rl.checks.cards import card_memory, seen, speed, usable
from docagent_rl.checks.encoder_cost import EncoderCost, encoder_cost
from docagent_rl.checks.placement.demand import Pool
from docagent_rl.checks.placement.read import read_needs
from docagent_rl.checks.placement.refusal import require_plan
from docagent_rl.checks.rates import Rates
from docagent_rl.checks.recipe_list import (
    ABLATIONS,
    ROOT,
    TrainerKind,
    ablation_names,
    located,
    recipe_kind,
    require_recipes,
)
from docagent_rl.checks.refused_override import explained
from docagent_rl.checks.step_time import TURN, StepSizes, TimeLine, step_time
from docagent_rl.config import DocAgentConfig, copied, plain_section
from docagent_rl.systems import get_system
from docagent_rl.training.settings.layout import has_reference

PROFILES = {TrainerKind.RL: (None, "cpu"), TrainerKind.SFT: (None, "sft_cpu")}
"""Each recipe is checked as it is, and with its CPU profile (`+profile=`)."""


@dataclass(frozen=True, slots=True)
class RecipeFinding:
    """The result for a recipe with a profile (`+profile=`) and an ablation (`+ablations=`)."""

    recipe: str
    profile: str | None = None
    ablation: str | None = None
    problem: str | None = None

    @property
    def overrides(self) -> list[str]:
        """The overrides in the launch command; the profile comes last."""
        chosen = {ABLATIONS: self.ablation, "profile": self.profile}
        return [f"+{group}={name}" for group, name in chosen.items() if name is not None]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The size of a cluster (`trainer.nnodes`, `trainer.n_gpus_per_node`); `None`: the recipe's."""

    nodes: int | None = None
    gpus_per_node: int | None = None
    gpu_memory: int | None = None
    """Bytes of a GPU, as its driver reports them; with None, it is not checked what fits."""

    @property
    def change(self) -> DictConfig:
        """The keys to merge into a recipe."""
        sizes = {"nnodes": self.nodes, "n_gpus_per_node": self.gpus_per_node}
        return OmegaConf.create(
            {"trainer": {key: size for key, size in sizes.items() if size is not None}}
        )


AS_WRITTEN = Cluster()


def check_recipe(
    name: str,
    root: Traversable = ROOT,
    ablations: Sequence[str] | None = None,
    cluster: Cluster = AS_WRITTEN,
) -> list[RecipeFinding]:
    """Check one recipe with every combination of profile and ablation; by default all ablations."""
    chosen = ablation_names(name, root) if ablations is None else ablations
    changes = {each: [read_recipe_file(root / ABLATIONS / f"{each}.yaml")] for each in chosen}
    try:
        plain = composed_recipe(name, root=root)
    except UserError as error:
        return [RecipeFinding(name, problem=str(error))]
    plain.merge_with(cluster.change)
    findings = []
    kind = recipe_kind(name, root)
    values = {}
    for profile in PROFILES[kind]:
        top = [read_recipe_file(ROOT / "profile" / f"{profile}.yaml")] if profile else []
        for ablation, change in ({None: []} | changes).items():
            config = copied(plain)
            config.merge_with(*change, *top)
            # resolve once for all checks; they report interpolations that are broken
            with suppress(OmegaConfBaseException):
                OmegaConf.resolve(config)
            values[profile, ablation] = _meaning(config, kind)
            same = ablation and not profile and values[None, ablation] == values[None, None]
            finding = RecipeFinding(name, profile, ablation, "changes nothing" if same else None)
            if not same:
                finding = _with_placement(with_problem(finding, config, kind), config, cluster)
            findings.append(finding)
    return findings


def _meaning(config: DictConfig, kind: TrainerKind) -> object:
    """Return all values of a configuration, with its environment's values under each variant.

    Two configurations with equal values run in the same way.
    """
    values = OmegaConf.to_container(config)
    with suppress(UserError, ValidationError):  # the checks report these errors
        if kind is TrainerKind.RL and isinstance(values, dict):
            section = DocAgentConfig.parse(plain_section(config.docagent))
            system = get_system(section.system)
            variant = section.env.get("variant")
            found = [{"variant": each} for each in getattr(system.config_type, "variants", ())] or [
                {}
            ]
            parsed = [system.parse_config({**section.env, **each}).model_dump() for each in found]
            values["docagent"] |= {"env": parsed, "variant": variant}
    return values


def check_overridden(
    name: str, overrides: Sequence[str], root: Traversable = ROOT, cluster: Cluster = AS_WRITTEN
) -> RecipeFinding:
    """Check one recipe as composed by a launch command with these overrides."""
    try:
        config = composed_recipe(name, overrides, root)
    except UserError as error:
        return RecipeFinding(name, problem=str(error))
    config.merge_with(cluster.change)
    finding = with_problem(RecipeFinding(name), config, recipe_kind(name, root))
    return _with_placement(finding, config, cluster)


def with_problem(
    finding: RecipeFinding, config: DictConfig, kind: TrainerKind = TrainerKind.RL
) -> RecipeFinding:
    """Check a configuration, and return the finding with the problem if there is one."""
    # imported here because they import verl, which takes seconds
    from docagent_rl.checks.check import refuse_for
    from docagent_rl.checks.configuration import workspace_problems
    from docagent_rl.checks.preflight import check_statically
    from docagent_rl.checks.sft_check import check_sft_statically, sft_size_problems

    try:
        if kind is TrainerKind.RL:
            check_statically(config)
        else:
            section = check_sft_statically(config)
            refuse_for(workspace_problems(section.workspace, filled=False))
            refuse_for(
                sft_size_problems(config, config.trainer.nnodes * config.trainer.n_gpus_per_node)
            )
    except UserError as error:
        return replace(finding, problem=str(error))
    return finding


def _with_placement(finding: RecipeFinding, config: DictConfig, cluster: Cluster) -> RecipeFinding:
    """Return the finding with the problem that trainer and services do not fit, if that is so.

    Services count that have a loopback address. What cannot be computed is not a problem: a model
    whose sizes are not known, a run on a CPU, supervised fine-tuning.
    """
    if cluster.gpu_memory is None or finding.problem or config.trainer.get("device") != "cuda":
        return finding
    if "actor_rollout_ref" not in config:
        return finding
    sizes = int(config.trainer.nnodes), int(config.trainer.n_gpus_per_node)
    try:
        needs = read_needs(finding.recipe, config, cluster.gpu_memory, known_only=True)
        if needs.layouts:
            require_plan(needs, Pool(*sizes, usable(cluster.gpu_memory)))
    except UserError as error:
        return replace(finding, problem=str(error))
    return finding


def budget_of_recipe(
    name: str, overrides: Sequence[str], cluster: Cluster, gpu_memory: int
) -> list[BudgetLine]:
    """Return the budget of one recipe, with overrides as on the command line.

    `gpu_memory` is what a GPU's driver reports, in bytes.

    Raises:
        UserError: Hydra cannot compose the recipe, or the sizes of its model are not known.
    """
    run, *_ = _sized_run(name, overrides, cluster)
    return budget(run, seen(gpu_memory))


def budget_with_encoder(
    name: str, overrides: Sequence[str], cluster: Cluster, card: str
) -> tuple[list[BudgetLine], EncoderCost | None]:
    """Return the budget of one recipe, and the cost of its query encoder if that is known.

    `card` is the name of each GPU's card, its nominal size, or its GiB, as on the command line.

    Raises:
        UserError: as `budget_of_recipe`, or the card is not known.
    """
    run, parsed, config = _sized_run(name, overrides, cluster)
    system = get_system(parsed.system)
    played = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    # the last turn answers
    searches = played * max(1, system.max_turns(system.parse_config(parsed.env)) - 1)
    try:
        known = speed(card)
    except UserError:  # a number of GiB says nothing about a card's speed
        known = None
    cost = encoder_cost(parsed.retriever, run, searches, known, Rates())
    return budget(run, seen(card_memory(card))), cost


def step_time_of_recipe(
    name: str,
    overrides: Sequence[str],
    cluster: Cluster,
    card: str,
    *,
    row: int | None = None,
    sampled: int | None = None,
    searches: int = 0,
    search_s: float = 0.0,
    rates: Rates | None = None,
) -> list[TimeLine]:
    """Return the time of a step of one recipe by part.

    Args:
        name: the recipe.
        overrides: overrides as on the command line.
        cluster: the nodes and GPUs, if they are not the recipe's.
        card: the name or size of each GPU.
        row: tokens of a row; the longest by default.
        sampled: sampled tokens of a row; `TURN` in each turn by default.
        searches: searches of a trajectory.
        search_s: seconds of the search service for each search.
        rates: the constants of the formula, if some were measured.

    Raises:
        UserError: as `budget_of_recipe`, the card is not known, or the model is a mixture of
            experts.
    """
    run, parsed, config = _sized_run(name, overrides, cluster)
    if parsed.model_family.endswith("_moe"):
        raise UserError(
            f"recipe {name}: the time of a mixture of experts is not computed, since only a part "
            "of its parameters works on each token"
        )
    system = get_system(parsed.system)
    played = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    several = max(1, run.rows // played)
    tokens = min(row or run.server.longest, run.server.longest)
    turns = system.max_turns(system.parse_config(parsed.env))
    text = min(sampled or turns * TURN // several, tokens)
    images = min(run.image_tokens, tokens - text)
    reference = has_reference(config)
    sizes = StepSizes(
        tokens, images, text, searches / several, search_s, several=several, reference=reference
    )
    cache = server_cache(run.server, seen(card_memory(card)))
    return step_time(run, sizes, speed(card), cache, rates)


def held_trajectories(name: str, overrides: Sequence[str], card: str) -> int:
    """Return how many of the longest trajectories the KV caches of a recipe's servers hold.

    Args:
        name: the recipe.
        overrides: overrides as on the command line.
        card: the name or size of each GPU.

    Raises:
        UserError: as `budget_of_recipe`, or the card is not known.
    """
    run, _, _ = _sized_run(name, overrides, AS_WRITTEN)
    if not run.server.trajectory:
        raise UserError(f"recipe {name}: its model keeps no keys and values")
    servers = run.nodes * run.gpus_per_node // run.server.gpus
    return servers * (server_cache(run.server, seen(card_memory(card))) // run.server.trajectory)


def _sized_run(
    name: str, overrides: Sequence[str], cluster: Cluster
) -> tuple[Run, DocAgentConfig, DictConfig]:
    config = composed_recipe(name, overrides)
    config.merge_with(cluster.change)
    parsed = DocAgentConfig.parse(plain_section(config.docagent))
    run = read_run(config, parsed)
    if run is None:
        raise UserError(
            f"recipe {name}: the sizes of {config.actor_rollout_ref.model.path} are not known: "
            "download the model, and set actor_rollout_ref.model.path to its folder"
        )
    return run, parsed, config


def composed_recipe(
    name: str, overrides: Sequence[str] = (), root: Traversable = ROOT
) -> DictConfig:
    """Return the configuration that `--config-name` would run, with overrides as on the command
    line.

    `name` can also be the path of a recipe file; then its folder is searched first.

    Raises:
        UserError: there is no such recipe, or Hydra cannot compose it.
    """
    name, root = located(name, root)
    try:
        with (
            composing_for(fine_tuning=recipe_kind(name, root) is TrainerKind.SFT),
            searching(root) as extra,
        ):
            config = compose(name, overrides=[*extra, *overrides])
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        if isinstance(error, MissingConfigException) and error.missing_cfg_file == name:
            require_recipes([name], root)
        reason = explained(error, lambda: composed_recipe(name, root=root))
        raise UserError(f"recipe {name}: {reason}") from error
    if "docagent" not in config:
        raise UserError(
            f"recipe {name} has no section `docagent`: begin it with `defaults: [base, _self_]`, "
            "or with the name of a recipe in place of `base` (docs/extending.md)"
        )
    # ablations may add keys; the check reports unknown ones
    OmegaConf.set_struct(config, False)
    return config


def filled_recipe(config: DictConfig) -> DictConfig:
    """Return a composed configuration with all keys of its environment, filled in by the
    variant.
    """
    values = OmegaConf.create(plain_section(config))
    name = OmegaConf.select(values, "docagent.system")
    if name is not None and OmegaConf.select(values, "docagent.env") is not None:
        env = get_system(name).parse_config(plain_section(values.docagent.env))
        OmegaConf.update(
            values, "docagent.env", env.model_dump(mode="json"), merge=False, force_add=True
        )
    return values


@contextmanager
def searching(root: Traversable) -> Generator[list[str]]:
    """Initialise Hydra with verl's configurations and the recipes; yield the overrides it needs."""
    folder = _folder_of_verl() if root is ROOT else Path(str(root)).resolve()
    with initialize_config_dir(str(folder), version_base=None):
        yield [] if root is ROOT else [f"hydra.searchpath=['file://{_folder_of_verl()}']"]


def _folder_of_verl() -> Path:
    """Return the folder of verl's configurations, without importing verl, which takes seconds."""
    package = find_spec("verl")
    if package is None or not package.submodule_search_locations:
        raise UserError("verl is not installed in this environment (README.md says how)")
    return Path(package.submodule_search_locations[0]) / "trainer" / "config"


def read_recipe_file(file: Traversable) -> DictConfig:
    """Read a recipe's file or an ablation, as Hydra reads a group of the package _global_.

    Raises:
        UserError: it is not YAML, or not a mapping.
    """
    try:
        read = OmegaConf.create(file.read_text(encoding="utf-8"))
    except YAMLError as error:
        raise UserError(f"{file}: {error}") from error
    if not isinstance(read, DictConfig):
        raise UserError(f"{file}: must contain a mapping of keys to values")
    return read
