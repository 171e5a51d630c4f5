import functools
import pickle

import pytest
from omegaconf import DictConfig

from docagent_rl.checks.recipe_check import composed_recipe
from tests.workspaces import long_workspace, resources_of  # noqa: F401  fixtures


@functools.cache
def _composed(name: str, overrides: tuple[str, ...]) -> bytes:
    """Kept as bytes, of which a copy is made faster than of a configuration."""
    return pickle.dumps(composed_recipe(name, list(overrides)))


@pytest.fixture(scope="session")
def recipe():
    """A recipe with values of one's own, in the CPU profile or not; each is composed once."""

    def make(
        name: str, *values: str, cpu: bool = True, choices: tuple[str, ...] = ()
    ) -> DictConfig:
        run = pickle.loads(_composed(name, (*choices, "+profile=cpu") if cpu else choices))
        run.merge_with_dotlist(list(values))
        return run

    return make
