from __future__ import annotations

import copy
import functools

import pytest
from omegaconf import DictConfig

from docagent_rl.checks.recipe_check import composed
from tests.workspaces import long_workspace, resources_of  # noqa: F401  fixtures


@pytest.fixture(scope="session")
def recipe():
    """A recipe with values of one's own, in the CPU profile or not; each is composed once."""
    whole = functools.cache(lambda name, cpu: composed(name, ["+profile=cpu"] if cpu else []))

    def make(name: str, *values: str, cpu: bool = True) -> DictConfig:
        run = copy.deepcopy(whole(name, cpu))
        run.merge_with_dotlist(list(values))
        return run

    return make
