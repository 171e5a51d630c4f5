"""Checks recipes without running them: everything that the configuration alone tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from pathlib import Path

from hydra import compose, initialize_config_dir, initialize_config_module
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from docagent_rl.errors import UserError
from docagent_rl.recipe_list import ABLATIONS, ROOT, ablation_names, recipe_names

PROFILES = (None, "cpu")
"""Each recipe is checked as it is, and as `+profile=cpu`."""
ANNOUNCED_ESTIMATORS: frozenset[str] = frozenset()
"""Estimators that recipes may name before they are registered; any other unknown name is a problem."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one way of running a recipe.

    Args:
        recipe: its name.
        profile: the machine it was scaled to (`+profile=`).
        ablation: the ablation it was run with (`+ablations=`).
        problem: what is wrong with it.
        waits_for: the estimator it names that is not registered yet; all else is in order.
    """

    recipe: str
    profile: str | None = None
    ablation: str | None = None
    problem: str | None = None
    waits_for: str | None = None

    @property
    def overrides(self) -> list[str]:
        """What to add to the launch command to see it; the profile comes last."""
        chosen = {ABLATIONS: self.ablation, "profile": self.profile}
        return [f"+{group}={name}" for group, name in chosen.items() if name is not None]

    @property
    def verdict(self) -> str:
        """`ok`, `waits for estimator X`, or the problem."""
        if self.problem is not None:
            return self.problem
        return "ok" if self.waits_for is None else f"waits for estimator {self.waits_for}"


def check_recipes(names: Sequence[str] = (), root: Traversable = ROOT) -> Iterator[list[Finding]]:
    """Check recipes, each with and without the CPU profile, alone and with each of its ablations.

    Args:
        names: recipes; by default all of the folder.
        root: folder of recipes.

    Yields:
        The findings of one recipe at a time.

    Raises:
        UserError: there is no such recipe.
    """
    known = recipe_names(root)
    for name in names:
        if name not in known:
            raise UserError(f"there is no recipe {name!r}; known are {', '.join(known)}")
    for name in names or known:
        yield check_recipe(name, root)


def check_recipe(
    name: str, root: Traversable = ROOT, ablations: Sequence[str] | None = None
) -> list[Finding]:
    """Check one recipe.

    Args:
        name: the recipe.
        root: folder of recipes.
        ablations: ablations to check it with; by default all that belong to it.

    Returns:
        One finding for every combination of profile and ablation.
    """
    chosen = ablation_names(name, root) if ablations is None else ablations
    changes = {ablation: _load(root / ABLATIONS / f"{ablation}.yaml") for ablation in chosen}
    try:
        plain = composed(name, root=root)
    except UserError as error:
        return [Finding(name, problem=str(error))]
    findings = []
    for profile in PROFILES:
        top = _load(ROOT / "profile" / f"{profile}.yaml") if profile else OmegaConf.create()
        findings.append(_judged(Finding(name, profile), OmegaConf.merge(plain, top)))
        for ablation, change in changes.items():
            findings.append(_judged(Finding(name, profile, ablation), OmegaConf.merge(plain, change, top)))
    return findings


def composed(name: str, overrides: Sequence[str] = (), root: Traversable = ROOT) -> DictConfig:
    """The configuration that `--config-name` would run.

    Args:
        name: the recipe.
        overrides: as on the command line.
        root: folder of recipes; the package's own are found from everywhere.

    Raises:
        UserError: Hydra cannot compose it.
    """
    here, extra = _search(root)
    try:
        with here:
            config = compose(name, overrides=[*extra, *overrides])
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise UserError(f"recipe {name}: {error}") from error
    # ablations may bring keys; unknown ones are found by the check
    OmegaConf.set_struct(config, False)
    return config


def _search(root: Traversable) -> tuple[AbstractContextManager[None], list[str]]:
    if root is ROOT:
        return initialize_config_module(config_module="verl.trainer.config", version_base=None), []
    folder = str(Path(str(root)).resolve())
    return initialize_config_dir(folder, version_base=None), ["hydra.searchpath=[pkg://verl.trainer.config]"]


def _load(file: Traversable) -> DictConfig:
    # what Hydra does with a group of the package _global_, without reading verl's files each time
    return OmegaConf.create(file.read_text(encoding="utf-8"))


def _judged(finding: Finding, config: DictConfig) -> Finding:
    # imports verl, which takes seconds
    from docagent_rl.preflight import UnknownEstimatorError, check_statically
    from docagent_rl.trainer.arithmetic import arithmetic_problems

    waits_for = None
    try:
        check_statically(config)
    except UnknownEstimatorError as error:
        if error.estimator not in ANNOUNCED_ESTIMATORS:
            return replace(finding, problem=str(error))
        waits_for = error.estimator
    except UserError as error:
        return replace(finding, problem=str(error))
    problems = arithmetic_problems(config)
    return replace(finding, problem="; ".join(problems) or None, waits_for=waits_for)
