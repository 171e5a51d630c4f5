"""Find the largest run of a system that fits on given GPUs according to its budget."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache
from itertools import product

import yaml
from omegaconf import DictConfig, OmegaConf

from docagent_rl.checks.budget import GIB, BudgetLine, MemoryKind, budget, total
from docagent_rl.checks.budget_table import (
    CRITIC_OFFLOADED,
    ON_GPU,
    POLICY_OFFLOADED,
    gib,
    read_run,
)
from docagent_rl.checks.cards import seen, usable
from docagent_rl.checks.merged_recipe import layers, merged_recipe
from docagent_rl.checks.model_sizes import known_sizes
from docagent_rl.checks.passes import BFLOAT16, FLOAT32
from docagent_rl.checks.recipe_check import Cluster, RecipeFinding, with_problem
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.config import DocAgentConfig, copied, plain_section
from docagent_rl.models import get_family
from docagent_rl.training.settings.divisibility import NODES, PER_NODE, remedy
from docagent_rl.training.settings.layout import read_layout

LORA = "+lora"
OVERLAYS = {79 * GIB: "gpu_80", 44 * GIB: "gpu_48", 0: "gpu_24"}
"""LoRA overlays (`+lora=`) by the minimum memory of the GPUs they are for, as drivers report it."""
RESPONSE = "data.max_response_length"
CONTEXT = "actor_rollout_ref.rollout.max_model_len"
SHARES = (Fraction(1), Fraction(3, 4), Fraction(1, 2))
"""The shares of a recipe's response length that are tried."""


class Training(StrEnum):
    """The part of a policy that is trained."""

    WHOLE = "all weights"
    ADAPTER = "LoRA"

    def choices(self, gpu_memory: int) -> tuple[tuple[str, ...], ...]:
        """Return the overrides to try on GPUs with this memory, the fastest first."""
        if self is Training.WHOLE:
            return ((), POLICY_OFFLOADED)
        return tuple((f"{LORA}={name}",) for size, name in OVERLAYS.items() if size <= gpu_memory)

    @property
    def least(self) -> int:
        """The minimum number of bytes per parameter on all GPUs together.

        With an adapter, the frozen weights are in memory twice, in bfloat16, while the server
        receives the adapter.
        """
        return 4 * FLOAT32 if self is Training.WHOLE else 2 * BFLOAT16


@dataclass(frozen=True, slots=True)
class RecipeCandidate:
    """Facts about a recipe that are needed before its budget is computed."""

    recipe: str
    parameters: int
    """Parameters of its policy; 0 if its sizes are not known here."""
    critics: tuple[tuple[str, ...], ...]
    """Overrides for the critics to try: the recipe's, offloaded, and the family's smallest
    model.
    """


@dataclass(frozen=True, slots=True)
class Fit:
    """A run that fits."""

    recipe: str
    overrides: tuple[str, ...]
    lines: Sequence[BudgetLine]

    @property
    def command(self) -> str:
        """The launch command."""
        return " ".join(
            ["python -m verl.trainer.main_ppo --config-name", self.recipe, *self.overrides]
        )


def candidates(system: str) -> list[RecipeCandidate]:
    """List the recipes of a system whose models have known sizes, the largest policy first."""
    found = [_candidate(name) for name in recipe_names() if name.startswith(f"{system}_")]
    known = (each for each in found if each.parameters)
    return sorted(known, key=lambda each: (-each.parameters, len(each.recipe), each.recipe))


def largest_fit(
    recipes: Sequence[RecipeCandidate], training: Training, cluster: Cluster, gpu_memory: int
) -> Fit | None:
    """Return the first run of the recipes, in their order, that fits on the GPUs with its
    estimates.

    `gpu_memory` is what a GPU's driver reports, in bytes; 5 % of what programs see of it stays
    free.

    If the critic does not fit next to the policy, the family's smallest model is tried as critic;
    if nothing fits at the recipes' lengths, shorter contexts are tried.
    """
    room = (cluster.nodes or 1) * (cluster.gpus_per_node or 1) * usable(gpu_memory)
    possible = [each for each in recipes if each.parameters * training.least <= room]
    for share, each in product(SHARES, possible):
        for choice, critic in product(training.choices(gpu_memory), each.critics):
            if (
                found := _fit(each.recipe, (*choice, *critic), share, cluster, gpu_memory)
            ) is not None:
                return found
    return None


def fit_lines(cluster: Cluster, gpu_memory: int, systems: Iterable[str]) -> Iterator[str]:
    """Describe the largest runs of systems on GPUs with `gpu_memory` bytes each, as Markdown.

    Each line is yielded as soon as it is known: the title and the head at once, a row per system
    and training, and at the end the commands.
    """
    gpus = f"{cluster.nodes or 1} x {cluster.gpus_per_node or 1} GPUs with {gib(gpu_memory)} GiB"
    yield f"# The largest runs on {gpus}, of which {gib(usable(gpu_memory))} can be used"
    yield ""
    yield f"| system | trains | {' | '.join(f'{place}, GiB' for place in MemoryKind)} |"
    yield "|---|---|" + "---:|" * len(MemoryKind)
    commands = []
    for system in systems:
        recipes = candidates(system)
        for training in Training:
            found = largest_fit(recipes, training, cluster, gpu_memory)
            if found is None:
                yield f"| {system} | {training}: nothing fits |" + " |" * len(MemoryKind)
                continue
            taken = (total(found.lines, place) for place in MemoryKind)
            sizes = " | ".join(gib(size) if size else "" for size in taken)
            yield f"| {system} | {training} of `{found.recipe}` | {sizes} |"
            commands.append(found.command)
    yield from ("", "```bash", *commands, "```")


def _candidate(recipe: str) -> RecipeCandidate:
    config = _composed(recipe)
    critics: list[tuple[str, ...]] = [()]
    if OmegaConf.select(config, "critic.enable"):
        released = get_family(str(config.docagent.model_family)).released
        critics.append(CRITIC_OFFLOADED)
        smallest = min(released, key=_parameters, default=None)
        if smallest is not None and smallest != config.critic.model.path:
            critics.append((*CRITIC_OFFLOADED, f"critic.model.path={smallest}"))
    return RecipeCandidate(
        recipe, _parameters(str(config.actor_rollout_ref.model.path)), tuple(critics)
    )


def _composed(recipe: str, overrides: tuple[str, ...] = ()) -> DictConfig:
    """Return a recipe with overrides that may be changed; several shares of a length need it."""
    return copied(_merged(recipe, overrides))


@cache
def _merged(recipe: str, overrides: tuple[str, ...]) -> DictConfig:
    """Merge overrides of the kinds that are tried here into a recipe."""
    config = merged_recipe(recipe)
    for override in overrides:
        key, _, value = override.partition("=")
        if key == LORA:
            config.merge_with(*layers(f"lora/{value}.yaml"))
        else:
            OmegaConf.update(config, key, yaml.safe_load(value))
    return config


def _parameters(path: str) -> int:
    sizes = known_sizes(path)
    return 0 if sizes is None else sizes.parameters


def _fit(
    recipe: str, overrides: tuple[str, ...], share: Fraction, cluster: Cluster, memory: int
) -> Fit | None:
    config = _composed(recipe, overrides)
    wanted = {NODES: cluster.nodes or 1, PER_NODE: cluster.gpus_per_node or 1}
    wanted |= remedy(read_layout(config, wanted[NODES], wanted[PER_NODE]))
    wanted |= _shortened(config, share)
    changed = {
        key: value for key, value in wanted.items() if OmegaConf.select(config, key) != value
    }
    for key, value in changed.items():
        OmegaConf.update(config, key, value)
    run = read_run(config, DocAgentConfig.parse(plain_section(config.docagent)))
    if run is None:
        return None
    lines = budget(run, seen(memory))
    if any(total(lines, place) > usable(memory) for place in ON_GPU):
        return None
    if with_problem(RecipeFinding(recipe), config).problem:
        return None
    return Fit(recipe, (*overrides, *(f"{key}={value}" for key, value in changed.items())), lines)


def _shortened(config: DictConfig, share: Fraction) -> dict[str, int]:
    """Return the keys that shorten the response to a share of its length."""
    if share == 1:
        return {}
    prompt = int(config.data.max_prompt_length)
    response = int(config.data.max_response_length)
    shorter = int(response * share)
    found = {RESPONSE: shorter, CONTEXT: prompt + shorter}
    for key in (key for part in read_layout(config).parts for key in part.tokens):
        rows = int(OmegaConf.select(config, key)) // (prompt + response)
        found[key] = max(rows, 1) * (prompt + shorter)
    return found
