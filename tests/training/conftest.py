import functools
import pickle

import pytest
from omegaconf import DictConfig

from docagent_rl.checks.recipe_check import composed_recipe
from tests.workspaces import long_workspace, resources_of  # noqa: F401  fixtures


@functools.cache
def _composed(name: str, overrides: tuple[str, ...]) -> bytes:
    """Compose a recipe; bytes are kept, since copying them is faster than copying a
    configuration.
    """
    return pickle.dumps(composed_recipe(name, list(overrides)))


@pytest.fixture(scope="session")
def recipe():
    """Return a function that composes a recipe with given values, by default in the CPU profile;
    each recipe is composed once.
    """

    def make(
        name: str, *values: str, cpu: bool = True, choices: tuple[str, ...] = ()
    ) -> DictConfig:
        run = pickle.loads(_composed(name, (*choices, "+profile=cpu") if cpu else choices))
        run.merge_with_dotlist(list(values))
        return run

    return make
